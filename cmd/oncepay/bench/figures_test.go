package bench

import (
	"encoding/json"
	"os"
	"testing"
)

// The figures that are shown are those of the run beside them, whatever a later release measures besides.
func TestFiguresAreTheRuns(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("figures.json")
	if err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	shown, err := os.ReadFile("figures.svg")
	if err != nil {
		t.Fatal(err)
	}
	if string(r.plot()) != string(shown) {
		t.Error("figures.svg is not what is drawn of figures.json")
	}
}
