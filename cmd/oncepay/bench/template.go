package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// template is a row that the product wrote, as SQL that makes others like it: every column, with a value of the same size.
type template struct {
	table   string
	columns []string
	values  []string // expressions
}

// substitutes are SQL expressions for what differs from row to row.
type substitutes struct {
	texts map[string]string // what occurs in the row, and the expression that takes its place
	from  time.Time         // times are as far from now as they were from this
	now   string
}

// Identities and sequences fill themselves.
const columnsOf = `
SELECT attname::text, format_type(atttypid, atttypmod)
  FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE a.attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attidentity = '' AND attgenerated = ''
   AND coalesce(pg_get_expr(d.adbin, d.adrelid), '') NOT LIKE 'nextval%'
 ORDER BY attnum`

// templates are the rows of a table that a condition selects.
func (d *database) templates(ctx context.Context, table, condition string, s substitutes) ([]template, error) {
	rows, err := d.pool.Query(ctx, columnsOf, table)
	if err != nil {
		return nil, err
	}
	types := map[string]string{}
	var names, asText []string
	var name, kind string
	_, err = pgx.ForEachRow(rows, []any{&name, &kind}, func() error {
		types[name] = kind
		names = append(names, name)
		if kind == "timestamp with time zone" {
			asText = append(asText, fmt.Sprintf("extract(epoch FROM %s)::text", pgx.Identifier{name}.Sanitize()))
		} else {
			asText = append(asText, pgx.Identifier{name}.Sanitize()+"::text")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	rows, err = d.pool.Query(ctx, fmt.Sprintf("SELECT ARRAY[%s] FROM %s WHERE %s", strings.Join(asText, ", "), table, condition))
	if err != nil {
		return nil, err
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[[]*string])
	if err != nil {
		return nil, fmt.Errorf("read a row of %s: %w", table, err)
	}
	var all []template
	for _, row := range values {
		t := template{table: table}
		for i, value := range row {
			if value == nil {
				continue
			}
			expression, err := s.expression(*value, types[names[i]])
			if err != nil {
				return nil, fmt.Errorf("%s.%s: %w", table, names[i], err)
			}
			t.columns, t.values = append(t.columns, names[i]), append(t.values, expression)
		}
		all = append(all, t)
	}
	return all, nil
}

func (s substitutes) expression(value, kind string) (string, error) {
	if kind == "timestamp with time zone" {
		var seconds float64
		if _, err := fmt.Sscan(value, &seconds); err != nil {
			return "", err
		}
		after := seconds - float64(s.from.UnixMicro())/1e6
		if after > -0.001 && after < 0.001 {
			return s.now, nil
		}
		return fmt.Sprintf("%s + interval '%.3f seconds'", s.now, after), nil
	}
	pieces := []string{}
	for rest := value; ; {
		at, text := len(rest), ""
		for t := range s.texts {
			if i := strings.Index(rest, t); i >= 0 && i < at {
				at, text = i, t
			}
		}
		if at > 0 || rest == "" && len(pieces) == 0 {
			pieces = append(pieces, quote(rest[:at]))
		}
		if text == "" {
			break
		}
		pieces = append(pieces, "("+s.texts[text]+")::text")
		rest = rest[at+len(text):]
	}
	return fmt.Sprintf("(%s)::%s", strings.Join(pieces, " || "), kind), nil
}

// quote makes an SQL literal. It has no colon, after which pgbench would look for the name of a variable.
func quote(text string) string {
	return "E'" + strings.NewReplacer("'", "''", `\`, `\\`, ":", `\x3a`).Replace(text) + "'"
}

// version7 is SQL that makes a version 7 UUID of a time, whose milliseconds it begins with.
func version7(at string) string {
	return "overlay(gen_random_uuid()::text placing lpad(to_hex((extract(epoch FROM " + at + ") * 1000)::bigint), 12, '0') || '-7' from 1 for 15)::uuid"
}

func (t template) insert(source string) string {
	return fmt.Sprintf("INSERT INTO %s (%s)\n%s", t.table, strings.Join(t.columns, ", "), fmt.Sprintf(source, strings.Join(t.values, ", ")))
}

// with gives a column another value.
func (t template) with(column, value string) template {
	t.values = slices.Clone(t.values)
	t.values[slices.Index(t.columns, column)] = value
	return t
}

// replacing replaces a part of every value.
func (t template) replacing(old, new string) template {
	t.values = slices.Clone(t.values)
	for i, value := range t.values {
		t.values[i] = strings.ReplaceAll(value, old, new)
	}
	return t
}
