package main

import (
	"fmt"
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
	"inventory.stuck": "commits nothing: it looks which rows are locked, and is rolled back",
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

// commitNames finds the names of all transactions: the literals that are given to what commits, also by way of a function of ours that hands on a
// parameter of its own, or a member of one that its callers write as a literal of its struct.
func commitNames(t *testing.T) map[string]bool {
	t.Helper()
	f := namesFinder{names: map[string]bool{}, handOn: map[string]handedOn{"InTx": {arg: 2}, "InTxEach": {arg: 2}}, met: map[string]bool{}, odd: map[string]string{}}
	files := sources(t)
	for known := 0; known < len(f.handOn); { // until no more are found that hand on
		known = len(f.handOn)
		for _, file := range files {
			for _, decl := range file.Decls {
				if fn, ok := decl.(*ast.FuncDecl); ok {
					f.read(file.Name.Name, fn)
				}
			}
		}
	}
	for fn, callee := range f.odd {
		t.Errorf("%s gives %s a name that this test cannot find out", fn, callee)
	}
	for fn := range f.handOn {
		if !f.met[fn] {
			t.Errorf("nobody gives a name to %s", fn)
		}
	}
	return f.names
}

// handedOn is where a function gets the name from: its argument, or a member of that.
type handedOn struct {
	arg    int
	member string
}

type namesFinder struct {
	names  map[string]bool
	handOn map[string]handedOn // function: where its name is
	met    map[string]bool     // functions that somebody gives a name, or hands one on to
	odd    map[string]string   // function: to which other it gives a name that is not understood
}

// read finds the names that a function gives to others: to what commits, or to those of its package that hand on.
func (f *namesFinder) read(pkg string, fn *ast.FuncDecl) {
	kind := "function"
	if fn.Recv != nil {
		kind = "method"
	}
	self := fmt.Sprintf("%s, %s %s of %d", pkg, kind, fn.Name.Name, fn.Type.Params.NumFields())
	if committers[fn.Name.Name] {
		self = fn.Name.Name
	}
	ast.Inspect(fn, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		callee := calleeName(pkg, call)
		from, ok := f.handOn[callee]
		if !ok || len(call.Args) <= from.arg {
			return true
		}
		arg := call.Args[from.arg]
		if from.member != "" {
			arg = memberOf(arg, from.member)
		}
		name, understood := literal(arg)
		switch {
		case understood:
			f.names[name] = true
		default:
			var on handedOn
			if on, understood = parameterIn(fn, arg); understood {
				f.handOn[self] = on
			}
		}
		if f.met[callee] = true; !understood {
			f.odd[self] = callee
		}
		return true
	})
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	name, err := strconv.Unquote(lit.Value)
	return name, err == nil
}

// memberOf is what a struct's literal gives a member; nil: it is no literal, or does not name it.
func memberOf(e ast.Expr, member string) ast.Expr {
	lit, ok := e.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	for _, element := range lit.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok && key.Name == member {
				return pair.Value
			}
		}
	}
	return nil
}

// parameterIn tells which parameter of fn, or which member of one, an expression is.
func parameterIn(fn *ast.FuncDecl, e ast.Expr) (on handedOn, ok bool) {
	if selector, isMember := e.(*ast.SelectorExpr); isMember {
		e, on.member = selector.X, selector.Sel.Name
	}
	ident, ok := e.(*ast.Ident)
	if !ok {
		return on, false
	}
	on.arg = parameter(fn, ident.Name)
	return on, on.arg >= 0
}

// committers are the functions that commit, whatever package calls them.
var committers = map[string]bool{"InTx": true, "InTxEach": true}

// calleeName tells a package's functions from its methods, by how many arguments they have as well, and those that commit from all others.
func calleeName(pkg string, call *ast.CallExpr) string {
	kind, name := "function", ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		kind, name = "method", f.Sel.Name
	}
	if committers[name] {
		return name
	}
	return fmt.Sprintf("%s, %s %s of %d", pkg, kind, name, len(call.Args))
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
