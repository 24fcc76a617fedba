package pgtest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestForeignDirectoryIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := open(t)
	precious := filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Options{DataDir: dir})
	if err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Fatalf("Start: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory now holds %v, %v", entries, err)
	}
}

func TestHalfMadeClusterIsMadeAnew(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(open(t), "data")
	half := filepath.Join(dir, unfinished+"123", "base")
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{lockName, passwordName} { // killed before the password was written, too
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := started(t, Options{DataDir: dir})
	query[int](t, s.URL("postgres"), `SELECT 1`)
	if there, err := exists(half); err != nil || there {
		t.Errorf("the half-made cluster is still there: %t, %v", there, err)
	}
}

func TestStandInElsewhereIsRefused(t *testing.T) {
	t.Parallel()
	dir := made(t)
	if err := os.WriteFile(filepath.Join(dir, standInName), []byte("/etc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Options{DataDir: dir})
	if err == nil || !strings.Contains(err.Error(), "no place of ours") {
		t.Fatalf("Start: %v", err)
	}
}

func TestAbandonedTestDirectoriesAreSwept(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	old := time.Now().Add(-time.Hour)
	make := func(name string) string {
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	abandoned, used, young, other := make(testDirPrefix+"a"), make(testDirPrefix+"b"), make(testDirPrefix+"c"), make("other")
	file, held, err := lockFile(filepath.Join(used, lockName))
	if err != nil || held {
		t.Fatalf("lock: held=%t, %v", held, err)
	}
	defer file.Close()
	for _, dir := range []string{abandoned, used, other} {
		if err := os.Chtimes(dir, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := sweepTestDirs(base, time.Now().Add(-abandonedAfter)); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{abandoned: false, used: true, young: true, other: true} {
		if there, err := exists(dir); err != nil || there != want {
			t.Errorf("%s: there=%t, want %t (%v)", filepath.Base(dir), there, want, err)
		}
	}
}
