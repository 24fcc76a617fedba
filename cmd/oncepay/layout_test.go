package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/oncepay/oncepay/"

// mayImport is the one direction in which our packages import each other. A package that is not named may not exist.
var mayImport = map[string][]string{
	"outbox":                        {},
	"charges":                       {"outbox"},
	"charges/api":                   {"charges", "outbox"},
	"charges/client":                {},
	"charges/model":                 {},
	"charges/stocktest":             {},
	"workers":                       {"charges", "outbox", "workers/stripe", "workers/sendgrid", "workers/transport"},
	"workers/transport":             {},
	"workers/stripe":                {"charges", "workers/transport"},
	"workers/sendgrid":              {"charges", "workers/transport"},
	"workers/sandbox":               {"workers/sandbox/frame", "workers/stripe/stripetest", "workers/sendgrid/sendgridtest"},
	"workers/sandbox/frame":         {},
	"workers/stripe/stripetest":     {"workers/sandbox/frame"},
	"workers/sendgrid/sendgridtest": {"workers/sandbox/frame"},
	"migrations":                    {},
	"migrations/pgtest":             {"migrations"},
	"cmd/oncepay/bench":             {"charges", "charges/client", "migrations", "migrations/pgtest", "outbox", "workers"},
	"cmd/oncepay": {"charges", "charges/api", "charges/client", "cmd/oncepay/bench", "migrations", "migrations/pgtest", "outbox", "workers",
		"workers/sandbox", "workers/sendgrid", "workers/stripe"},
}

// Imports go one way, so that a request can be read from top to bottom and the API process cannot hold a provider's keys.
func TestImportsGoOneWay(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		names := strings.Fields(line)
		pkg := strings.TrimPrefix(names[0], module)
		allowed, known := mayImport[pkg]
		if !known {
			t.Errorf("%s has no place in the layout", pkg)
		}
		for _, name := range names[1:] {
			if ours, ok := strings.CutPrefix(name, module); ok && !slices.Contains(allowed, ours) {
				t.Errorf("%s imports %s", pkg, ours)
			}
		}
	}
}

// door is a call that may be made in some files only.
type door struct {
	call  string   // the selector's name
	files []string // where it may stand; a trailing * takes all below
	why   string
}

var doors = []door{
	{"Commit", []string{"outbox/tx.go", "migrations/*", "charges/webhook.go"}, "everything commits through InTx; an event's is a savepoint"},
	{"BeginTx", []string{"outbox/tx.go", "migrations/*"}, "everything begins in InTx"},
	{"Begin", []string{"migrations/*", "workers/charge.go", "charges/webhook.go"}, "everything begins in InTx; the worker's Begin is the service's, an event's is a savepoint"},
	{"BeginFunc", []string{"migrations/*"}, "everything begins in InTx"},
	{"Insert", nil, "jobs are written by Outbox.Enqueue"},
	{"InsertTx", nil, "jobs are written by Outbox.Enqueue"},
	{"InsertMany", nil, "jobs are written by Outbox.Enqueue"},
	{"InsertManyTx", nil, "jobs are written by Outbox.Enqueue"},
	{"InsertManyFast", nil, "jobs are written by Outbox.Enqueue"},
	{"InsertManyFastTx", []string{"outbox/outbox.go"}, "jobs are written by Outbox.Enqueue"},
	{"Dial", []string{"workers/transport/*"}, "providers are called through workers/transport"},
	{"DialContext", []string{"workers/transport/*", "outbox/dial.go"}, "providers are called through workers/transport, and PostgreSQL through outbox.Open"},
}

// Nothing but the transaction helper commits, and nothing but the transport dials a provider: that is where crashes are tested.
func TestOneDoor(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	met := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if strings.HasPrefix(name, "workers/sandbox/") || strings.Contains(name, "/stripetest/") || strings.Contains(name, "/sendgridtest/") || strings.HasPrefix(name, "charges/client/") {
			return nil // the other side of the wire
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			selector, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			for _, d := range doors {
				if d.call != selector.Sel.Name {
					continue
				}
				met[d.call] = true
				if !slices.ContainsFunc(d.files, func(f string) bool {
					prefix, below := strings.CutSuffix(f, "*")
					return f == name || below && strings.HasPrefix(name, prefix)
				}) {
					t.Errorf("%s calls %s: %s", name, d.call, d.why)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{"Commit", "BeginTx", "InsertManyFastTx"} {
		if !met[call] {
			t.Errorf("no call of %s was met at all: the test looks in the wrong place", call)
		}
	}
}
