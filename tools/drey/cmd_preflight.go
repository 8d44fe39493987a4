package main

func cmdPreflight() *command { return &command{name: "preflight", args: "SNAPSHOT"} }
