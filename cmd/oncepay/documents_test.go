package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is left open while a release is written is filled in before it is read.
func TestDocumentsHaveNoPlaceholders(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"README.md", "CHANGELOG.md"} {
		content, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		number := 0
		for line := range strings.Lines(string(content)) {
			if number++; strings.Contains(line, "@@") {
				t.Errorf("%s:%d: %s", name, number, line)
			}
		}
	}
}
