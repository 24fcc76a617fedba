package outbox

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// Every type here that has a Kind is a job of this release, carries which form its arguments have, and is known as one.
func TestAllKindsAreKnown(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, args := range known {
		of := reflect.TypeOf(args)
		names[of.Name()] = true
		if v, ok := of.FieldByName("Version"); !ok || v.Type != reflect.TypeFor[Version]() || v.Tag.Get("json") != "v" {
			t.Errorf("%s has no Version as the others have", of.Name())
		}
	}
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Name.Name != "Kind" {
				continue
			}
			found++
			if name, ok := f.Recv.List[0].Type.(*ast.Ident); !ok || !names[name.Name] {
				t.Errorf("%v has a kind, and is not known", f.Recv.List[0].Type)
			}
		}
	}
	if found != len(known) {
		t.Errorf("%d types have a kind, %d are known", found, len(known))
	}
}
