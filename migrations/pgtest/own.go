package pgtest

import (
	"context"
	"os"
	"testing"

	"github.com/oncepay/oncepay/migrations"
)

// ownDatabase is the database of a server from [Own].
const ownDatabase = "oncepay"

// Own starts a durable server for this test alone, which may be killed and restarted, and returns it with the URL of a database on it
// that has the full schema. It costs a second or two: a test that leaves its server alone takes [URL].
func Own(t testing.TB) (s *Server, url string) {
	t.Helper()
	dir, err := testDir()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	s = startOwn(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), testStartTimeout)
	defer cancel()
	if err := s.CreateDatabase(ctx, ownDatabase); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	url = s.URL(ownDatabase)
	if _, err := migrations.Up(ctx, url, nil); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return s, url
}

func startOwn(t testing.TB, dir string) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testStartTimeout)
	defer cancel()
	s, err := Start(ctx, Options{DataDir: dir, Durable: true})
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testStepTimeout)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return s
}
