package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/oncepay/oncepay/charges"
)

// printEvidence prints a charge's evidence as tables, the oldest line of each first.
func printEvidence(e charges.Evidence) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	reason, todo, stock := "-", "-", "-"
	if e.Charge.Review != nil {
		reason, todo = shortReason(e.Charge.Review.Reason), whatToDo(e.Charge.Review.Reason)
		if e.Charge.Review.Reason == charges.InsufficientInventory {
			todo = aboutShort(e)
		}
	}
	if e.Charge.Stock != nil {
		stock = string(*e.Charge.Stock)
	}
	for _, line := range [][2]string{
		{"charge", e.Charge.ID.String()}, {"caller", e.Caller}, {"reference", orDash(e.Charge.Reference)}, {"amount", charges.Format(e.Charge.Amount, e.Charge.Currency, "en")},
		{"status", string(e.Charge.Status)}, {"reason", reason}, {"to do", todo}, {"items", stock}, {"key", e.Charge.IdempotencyKey.String()}, {"payment", known(e.Charge.PaymentIntent)},
		{"refunded", refundedOf(e.Charge, receivedOf(e))},
		{"accepted", stamp(e.Charge.CreatedAt)}, {"changed", stamp(e.Charge.UpdatedAt)},
	} {
		fmt.Fprintf(w, "%s\t%s\n", line[0], line[1])
	}
	if r := e.Receipt; r != nil {
		fmt.Fprintf(w, "receipt\t%s since %s, sends in doubt: %d, message: %s, error: %s\n", r.Status, stamp(r.Since), r.Doubts, known(r.MessageID), known(r.Error))
	}
	printItems(w, e)
	if len(e.Others) > 0 {
		fmt.Fprintln(w, "\nOTHER CHARGE OF ITS ORDER\tSTATUS")
	}
	for _, o := range e.Others {
		fmt.Fprintf(w, "%s\t%s\n", o.ID, o.Status)
	}
	printAttempts(w, e.Attempts)
	printLooks(w, e.Looks)
	if len(e.Payments) > 0 {
		fmt.Fprintln(w, "\nPAYMENT\tSTATUS\tAS OF\tRECEIVED\tREFUNDED\tMAY STILL CHANGE")
	}
	for _, p := range e.Payments {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%t\n", p.ID, shortReason(p.Status), stamp(p.AsOf), p.Received, p.Refunded, p.Followed)
	}
	fmt.Fprintln(w, "\nEVENT\tAT\tFROM\tTO\tBY\tWHAT WAS KNOWN")
	for _, v := range e.Events {
		from := "-"
		if v.From != nil {
			from = string(*v.From)
		}
		data, err := json.Marshal(v.Data)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", v.Type, stamp(v.At), from, v.To, v.Actor, withoutSecrets(data))
	}
	return w.Flush()
}

// printItems prints what the charge asks for, and what there is of it now: what it holds or has taken is not among what is available.
func printItems(w io.Writer, e charges.Evidence) {
	if len(e.Charge.Items) > 0 {
		fmt.Fprintln(w, "\nITEM\tASKED FOR\tAVAILABLE NOW\tHELD BY CHARGES\tTAKEN\tEVER STOCKED")
	}
	now := map[string]charges.Inventory{}
	for _, v := range e.Inventory {
		now[v.SKU] = v
	}
	for _, i := range e.Charge.Items {
		v := now[i.SKU]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\n", i.SKU, i.Quantity, v.Available, v.Held, v.Taken, v.Quantity)
	}
}

func printAttempts(w io.Writer, attempts []charges.TriedAttempt) {
	if len(attempts) > 0 {
		fmt.Fprintln(w, "\nATTEMPT\tKEY\tACCOUNT\tMODE\tSENT\tENDED\tOUTCOME\tHTTP\tCODE\tREQUEST ID\tPAYMENT")
	}
	for _, a := range attempts {
		mode, ended, outcome, status := "test", "nobody saw it", "open", "-"
		if a.Livemode {
			mode = "live"
		}
		if a.EndedAt != nil {
			ended = stamp(*a.EndedAt)
		}
		if a.Outcome != nil {
			outcome = string(*a.Outcome)
		}
		if a.HTTPStatus != nil {
			status = fmt.Sprint(*a.HTTPStatus)
		}
		fmt.Fprintf(w, "%s %d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.Operation, a.Number, a.Key, a.Account, mode, stamp(a.SentAt), ended, outcome,
			status, known(a.Code), known(a.RequestID), known(a.Payment))
	}
}

func printLooks(w io.Writer, looks []charges.MadeLook) {
	if len(looks) > 0 {
		fmt.Fprintln(w, "\nLOOK\tCOMPLETE\tSEEN\tFOUND\tERROR")
	}
	for _, l := range looks {
		fmt.Fprintf(w, "%s\t%t\t%d\t%s\t%s\n", stamp(l.At), l.Complete, l.Seen, orDash(strings.Join(l.Found, " ")), shortReason(l.Error))
	}
}

// known is a text that may not be known.
func known(text *string) string {
	if text == nil {
		return "-"
	}
	return shortReason(*text)
}
