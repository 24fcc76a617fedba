package outbox

import (
	"bytes"
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// pageSize is how many charges one transaction of a sweep or replay holds: few enough to be short, enough to be quick.
const pageSize = 500

// steps says how a walk goes on. All but name may be left out.
type steps struct {
	name     string       // of its transactions
	lock     Lock         // what it does to the rows it meets
	size     int          // charges in a page; 0: pageSize
	progress func(Report) // called after each page

	from    uuid.UUID       // where it begins, and ends after it has come round; zero: at the beginning
	reached func(uuid.UUID) // called after each page with where the next one begins; zero: at the beginning, or nowhere any more

	// write is given the entries of a page that want a job and have none, and the report up to and with that page, and writes in the
	// page's transaction.
	write func(tx pgx.Tx, wanted []Entry, sofar Report) error

	rest func(context.Context, Report) error // called between two pages
}

// walk goes once through everything unfinished, a page to a transaction. What shares a page with where it began may be met twice.
func (o *Outbox) walk(ctx context.Context, src Source, f Filter, s steps) (Report, error) {
	if s.size == 0 {
		s.size = pageSize
	}
	report := Report{Counts: map[Class]int64{}}
	for after, round := s.from, s.from != (uuid.UUID{}); ; {
		var last uuid.UUID
		var sofar Report
		err := InTx(ctx, o.pool, s.name, func(tx pgx.Tx) error {
			items, end, err := src.Unfinished(ctx, tx, f, after, s.size, s.lock)
			if err != nil {
				return err
			}
			live, err := findLive(ctx, tx, items)
			if err != nil {
				return err
			}
			page, wanted := count(items, live)
			last, sofar = end, report.plus(page)
			if s.write == nil {
				return nil
			}
			return s.write(tx, wanted, sofar)
		})
		if err != nil {
			return report, err
		}
		report = sofar
		if s.progress != nil {
			s.progress(report)
		}
		if s.reached != nil {
			s.reached(last)
		}
		switch {
		case round && last == (uuid.UUID{}):
			round = false
		case last == (uuid.UUID{}), !round && s.from != (uuid.UUID{}) && bytes.Compare(last[:], s.from[:]) >= 0:
			return report, nil
		}
		if s.rest != nil {
			if err := s.rest(ctx, report); err != nil {
				return report, err
			}
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
