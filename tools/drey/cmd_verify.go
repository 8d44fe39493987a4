package main

func cmdVerify() *command { return &command{name: "verify", args: "SNAPSHOT"} }
