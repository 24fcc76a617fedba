package outbox

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// pageSize is how many charges one transaction of a sweep or replay holds: few enough to be short, enough to be quick.
const pageSize = 500

// walk goes through everything unfinished, a page to a transaction. write, unless nil, is given the entries of a page
// that want a job and have none, and the report up to and with that page, and writes in the page's transaction.
func (o *Outbox) walk(ctx context.Context, name string, src Source, f Filter, lock Lock,
	progress func(Report), write func(tx pgx.Tx, wanted []Entry, sofar Report) error) (Report, error) {
	report := Report{Counts: map[Class]int64{}}
	for after := (uuid.UUID{}); ; {
		var last uuid.UUID
		var sofar Report
		err := InTx(ctx, o.pool, name, func(tx pgx.Tx) error {
			items, end, err := src.Unfinished(ctx, tx, f, after, pageSize, lock)
			if err != nil {
				return err
			}
			live, err := findLive(ctx, tx, items)
			if err != nil {
				return err
			}
			page, wanted := count(items, live)
			last, sofar = end, report.plus(page)
			if write == nil {
				return nil
			}
			return write(tx, wanted, sofar)
		})
		if err != nil {
			return report, err
		}
		report = sofar
		if progress != nil {
			progress(report)
		}
		if last == (uuid.UUID{}) {
			return report, nil
		}
		after = last
	}
}

// count sorts a page into its classes and picks the entries that want a job and have none.
func count(items []Item, live map[Entry]job) (Report, []Entry) {
	page := Report{Counts: map[Class]int64{}}
	var wanted []Entry
	for _, it := range items {
		_, alive := live[it.Entry]
		switch {
		case !it.Wants:
			page.Counts[it.Class]++
		case alive:
			page.Counts[Live]++
		default:
			page.Counts[it.Class]++
			wanted = append(wanted, it.Entry)
		}
	}
	page.Enqueued = int64(len(wanted))
	return page, wanted
}
