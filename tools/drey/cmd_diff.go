package main

func cmdDiff() *command { return &command{name: "diff", args: "SNAPSHOT"} }
