package main

func cmdRelocate() *command { return &command{name: "relocate", args: "SRC [DST]"} }
