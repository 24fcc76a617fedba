package main

import (
	"os"
	"runtime/debug"
)

// roomForGarbage is by how many percent the heap may grow before it is collected. What is live in a process of ours is little, some 10 MB, and
// collecting at Go's own 100 takes a seventh of its time. With 256 clients, or as many charges at once, a process takes about 100 MB.
const roomForGarbage = 300

// collectRarely trades some memory for time, unless the environment says how (GOGC).
func collectRarely() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(roomForGarbage)
	}
}
