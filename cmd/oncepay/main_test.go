package main

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/oncepay/oncepay/migrations/pgtest"
)

// These tests run the command as processes of its own: their binary is started again with this variable set, and then
// is the command, with the race detector if the tests have it.
const actAs = "ONCEPAY_TEST_ACT_AS"

const (
	actAsOncepay  = "oncepay"
	actAsGoParent = "go" // starts oncepay and waits for it, as `go run` does
)

func TestMain(m *testing.M) {
	switch os.Getenv(actAs) {
	case actAsOncepay:
		if at := os.Getenv(crashEnv); at != "" {
			armCrash(at)
		}
		os.Exit(run(os.Args[1:]))
	case actAsGoParent:
		os.Exit(goRun(os.Args[1:]))
	}
	pgtest.WaitTogether()
	pgtest.Main(m)
}

// goRun is what `go run` is to dev: a parent named go that hands no signal on and says nothing when it is killed. It
// prints the pid of its child.
func goRun(args []string) int {
	program, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	child := exec.Command(program, args...)
	child.Env = append(os.Environ(), actAs+"="+actAsOncepay)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("child", child.Process.Pid)
	if err := child.Wait(); err != nil {
		return 1
	}
	return 0
}
