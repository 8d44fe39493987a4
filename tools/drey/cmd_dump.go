package main

func cmdDump() *command { return &command{name: "dump", args: "SNAPSHOT"} }
