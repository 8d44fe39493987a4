package main

func cmdInspect() *command { return &command{name: "inspect", args: "SNAPSHOT"} }
