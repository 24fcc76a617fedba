// Package migrations brings a database to the schema that this binary was built for: River's tables
// first, then ours, which are the numbered SQL files beside this one, embedded.
//
// Any number of processes may run [Up] at the same time, on an empty database too: one session
// advisory lock lets them through one after another, and those that come late find nothing to do.
// Each of our files runs in a transaction of its own and is recorded in oncepay_migration with its
// checksum, so that a file edited after its release is refused instead of silently skipped.
//
// Migrations only go forward. During a rolling deploy old code meets the new schema, so [Pending],
// which readiness asks, complains about a schema that is too old and never about one that is newer;
// only [Up] refuses a newer database. README.md has the rules for writing a migration.
package migrations

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed *.sql
var embedded embed.FS

// migration is one of our SQL files.
type migration struct {
	version  int
	name     string // the file's name without .sql: 0001_charge
	checksum string // SHA-256 of sql, in hex
	sql      string
}

var fileName = regexp.MustCompile(`^([0-9]{4})_[a-z0-9_]+\.sql$`)

// load reads the migrations in fsys in order of version. Versions count up from 1 without gaps, so
// that two branches which both add the next one cannot be merged unnoticed.
func load(fsys fs.FS) ([]migration, error) {
	files, err := fs.Glob(fsys, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	migrations := make([]migration, 0, len(files))
	for _, file := range files {
		match := fileName.FindStringSubmatch(file)
		if match == nil {
			return nil, fmt.Errorf("migration %s: the name must look like 0001_what_it_does.sql", file)
		}
		version, err := strconv.Atoi(match[1])
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", file, err)
		}
		content, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", file, err)
		}
		// A checkout with CRLF line ends must not look like an edited file.
		sql := strings.ReplaceAll(string(content), "\r\n", "\n")
		sum := sha256.Sum256([]byte(sql))
		migrations = append(migrations, migration{
			version:  version,
			name:     strings.TrimSuffix(path.Base(file), ".sql"),
			checksum: hex.EncodeToString(sum[:]),
			sql:      sql,
		})
	}
	slices.SortFunc(migrations, func(a, b migration) int {
		return cmp.Or(cmp.Compare(a.version, b.version), cmp.Compare(a.name, b.name))
	})
	for i, m := range migrations {
		if m.version != i+1 {
			return nil, fmt.Errorf("migration %s: expected version %04d here, versions count up from 0001 without gaps or doubles", m.name, i+1)
		}
	}
	return migrations, nil
}
