package frame

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

func TestRequestLogIsBounded(t *testing.T) {
	t.Parallel()
	l := requestLog{journal: &Journal{}}
	var early LoggedRequest
	for i := range 2*maxRequests + 5 {
		e, err := l.arrive(LoggedRequest{Path: "/v1/x"})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			early = e
		}
	}
	if len(l.entries) > 2*maxRequests {
		t.Fatalf("%d entries in memory", len(l.entries))
	}
	if err := l.answered(early, 200); err != nil { // of a request that the log has let go
		t.Fatal(err)
	}
	late := l.all()[maxRequests-1]
	if err := l.answered(late, 200); err != nil {
		t.Fatal(err)
	}
	all := l.all()
	if len(all) != maxRequests || all[0].Seq != maxRequests+6 || all[0].Status != 0 || all[maxRequests-1].Status != 200 {
		t.Fatalf("%d entries, first %+v, last %+v", len(all), all[0], all[len(all)-1])
	}
}

// TestFailedWriteEndsTheJournal: what follows half a line would be lost at the next start.
func TestFailedWriteEndsTheJournal(t *testing.T) {
	t.Parallel()
	j, err := OpenJournal(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	clock := NewClock(j)
	if err := j.Replay(slog.New(slog.DiscardHandler), clock); err != nil {
		t.Fatal(err)
	}
	whole := j.file
	j.file, err = os.Open(j.path) // read-only: every write fails
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Append(NewRecord(clockKind, 1)); err == nil {
		t.Fatal("a failed write went unnoticed")
	}
	broken := j.file
	j.file = whole
	if err := j.Append(NewRecord(clockKind, 1)); err == nil {
		t.Fatal("the journal went on after a failed write")
	}
	if err := broken.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestArmedFaultsAreBounded(t *testing.T) {
	t.Parallel()
	var faults Faults
	for range maxArmed {
		if _, err := faults.Arm(Fault{Kind: DropAfter}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := faults.Arm(Fault{Kind: DropAfter}); err == nil {
		t.Fatal("one more was armed")
	}
}
