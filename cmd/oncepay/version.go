package main

import "runtime/debug"

// version is what the Go toolchain knows of this build: a release's tag, or "(devel)".
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
