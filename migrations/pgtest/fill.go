package pgtest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed fill.sql
var fillSQL string

// statements are the statements of fill.sql by the table that each fills, in their order.
var statements = regexp.MustCompile(`(?m)^-- ([a-z_]+)\n`)

// Fill fills a database, which must be empty, with what thirty days of work leave: so many charges with all that belongs to them, the last waiting
// of them behind an outage, with their jobs. A million charges take some 25 s on two cores. The pool's user must be a superuser, since indexes
// are made anew after their table is full, and foreign keys are not checked row by row.
func Fill(ctx context.Context, pool *pgxpool.Pool, charges, waiting int64) error {
	marks := statements.FindAllStringSubmatchIndex(fillSQL, -1)
	for _, tables := range [][]int{{0}, nil} { // all others are made from the charges
		if tables == nil {
			for i := 1; i < len(marks); i++ {
				tables = append(tables, i)
			}
		}
		work := make(chan int, len(tables))
		for _, i := range tables {
			work <- i
		}
		close(work)
		errs := make([]error, 2)
		var both sync.WaitGroup
		for w := range errs {
			both.Go(func() {
				for i := range work {
					end := len(fillSQL)
					if i+1 < len(marks) {
						end = marks[i+1][0]
					}
					table, sql := fillSQL[marks[i][2]:marks[i][3]], fillSQL[marks[i][1]:end]
					if err := fillTable(ctx, pool, table, sql, charges, waiting); err != nil {
						errs[w] = errors.Join(errs[w], fmt.Errorf("fill %s: %w", table, err))
					}
				}
			})
		}
		both.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

func fillTable(ctx context.Context, pool *pgxpool.Pool, table, sql string, charges, waiting int64) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	var args []any
	if strings.Contains(sql, "$1") {
		args = []any{charges, waiting}
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, step := range []string{
			`SET LOCAL session_replication_role = replica`, // no trigger looks a row's charge up
			`SET LOCAL maintenance_work_mem = '256MB'`,
			// An index that is not ready is not kept up, until REINDEX has made it.
			`UPDATE pg_index SET indisready = false, indisvalid = false WHERE indrelid = '` + table + `'::regclass`,
		} {
			if _, err := tx.Exec(ctx, step); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, sql, args...); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `REINDEX TABLE `+table)
		return err
	})
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `VACUUM (ANALYZE, PARALLEL 0) `+table) // as autovacuum leaves it
	return err
}
