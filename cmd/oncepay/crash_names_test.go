package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// notCrashed are commits at which no process is killed, and why.
var notCrashed = map[string]string{
	"queues.depths":   "only reads, when the metrics are asked for",
	"reading.drop":    "reached only where Stripe refuses to go on with its list; whoever needs the reading begins another with or without it",
	"webhook.put_off": "reached only after a row was locked by others for 5 s; it writes nothing but a later time to try again",
}

// Every commit has its crash: a name that is new in the source needs a line in the table of points.
func TestCrashPointsNameEveryCommit(t *testing.T) {
	t.Parallel()
	crashed := map[string]bool{}
	for _, story := range crashStories {
		for _, p := range story.points {
			name, side, _ := cutLast(p.at)
			crashed[name+" "+side] = true
		}
	}
	names := commitNames(t)
	for name := range names {
		for _, side := range []string{"before", "after"} {
			if !crashed[name+" "+side] && notCrashed[name] == "" {
				t.Errorf("no process is killed %s the commit %q", side, name)
			}
		}
	}
	for name := range notCrashed {
		if !names[name] {
			t.Errorf("%q is no commit any more", name)
		}
	}
	if len(names) < 20 {
		t.Errorf("%d names were found: the test looks in the wrong place", len(names))
	}
}

func cutLast(text string) (before, after string, found bool) {
	i := strings.LastIndexByte(text, ' ')
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}

// commitNames finds the names of all transactions: the literals that are given to InTx, also by way of a function of ours that hands on a
// parameter of its own.
func commitNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	handOn := map[string]int{"InTx": 2} // function: which argument is the name
	met := map[string]bool{}
	files := sources(t)
	for range 2 { // the second time, with those that hand on
		for _, file := range files {
			for _, decl := range file.Decls {
				f, ok := decl.(*ast.FuncDecl)
				if !ok {
					continue
				}
				ast.Inspect(f, func(n ast.Node) bool {
					call, ok := n.(*ast.CallExpr)
					if !ok {
						return true
					}
					callee := calleeName(call)
					i, ok := handOn[callee]
					if !ok || len(call.Args) <= i {
						return true
					}
					switch arg := call.Args[i].(type) {
					case *ast.BasicLit:
						if name, err := strconv.Unquote(arg.Value); err == nil && arg.Kind == token.STRING {
							names[name], met[callee] = true, true
						}
					case *ast.Ident:
						if at := parameter(f, arg.Name); at >= 0 {
							handOn[f.Name.Name] = at
						} else if callee == "InTx" {
							t.Errorf("%s: InTx gets a name that is neither a literal nor a parameter", f.Name.Name)
						}
					}
					return true
				})
			}
		}
	}
	for f := range handOn {
		if !met[f] {
			t.Errorf("nobody gives a name to %s", f)
		}
	}
	return names
}

func calleeName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// parameter is the place of a parameter of f, or -1.
func parameter(f *ast.FuncDecl, name string) int {
	i := 0
	for _, field := range f.Type.Params.List {
		for _, n := range field.Names {
			if n.Name == name {
				return i
			}
			i++
		}
	}
	return -1
}

// sources parses all our files but tests and simulators.
func sources(t *testing.T) (files []*ast.File) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		slashed := filepath.ToSlash(path)
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.Contains(slashed, "/sandbox/") || strings.Contains(slashed, "/stripetest/") || strings.Contains(slashed, "/sendgridtest/") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		files = append(files, file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
