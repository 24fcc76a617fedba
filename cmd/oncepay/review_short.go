package main

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/oncepay/oncepay/charges"
)

// printShort prints what there is of the items of those that wait for more of them, and what else is known of their orders.
func printShort(waiting []charges.Waiting) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	head := "\nCHARGE\tREFUNDED\tITS ORDER HAS ALSO\tWAITS FOR\tASKS FOR\tAVAILABLE\n"
	for _, x := range waiting {
		if x.Charge.Review.Reason != charges.InsufficientInventory {
			continue
		}
		fmt.Fprint(w, head)
		head = ""
		known := fmt.Sprintf("%s\t%s\t%s", x.Charge.ID, refundedOf(x.Charge, x.Received), orDash(others(x.Others)))
		for _, s := range x.Short {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\n", known, s.SKU, s.Requested, s.Available)
		}
		if len(x.Short) == 0 {
			fmt.Fprintf(w, "%s\t-\t-\tall of its items\n", known)
		}
	}
	return w.Flush()
}

// refundedOf says how much of what was paid was given back.
func refundedOf(c charges.Charge, received int64) string {
	return charges.Format(c.AmountRefunded, c.Currency, "en") + " of " + charges.Format(received, c.Currency, "en")
}

// others names charges, with their statuses.
func others(list []charges.OtherCharge) string {
	texts := make([]string, len(list))
	for i, o := range list {
		texts[i] = fmt.Sprintf("%s (%s)", o.ID, o.Status)
	}
	return strings.Join(texts, ", ")
}

// aboutShort is whatToDo for a charge whose items are short, in the light of what is known of it.
func aboutShort(e charges.Evidence) string {
	var goOn []charges.OtherCharge
	for _, o := range e.Others {
		if o.GoesOn() {
			goOn = append(goOn, o)
		}
	}
	short := false
	there := map[string]int64{}
	for _, v := range e.Inventory {
		there[v.SKU] = v.Available
	}
	for _, i := range e.Charge.Items {
		short = short || there[i.SKU] < i.Quantity
	}
	why, take := "", "--as succeeded takes its items, of which there are enough now"
	if short {
		why, take = ", and others hold or have bought them", "stock more and --as succeeded (--restock stocks what is short in the same step)"
	}
	const leave = "then --as succeeded --without-items"
	switch received := receivedOf(e); {
	case received > 0 && e.Charge.AmountRefunded >= received:
		return "it was refunded in full: --as succeeded --without-items"
	case len(goOn) > 0:
		return fmt.Sprintf("its order has also %s, and was likely paid again: refund it at Stripe, %s; else %s", others(goOn), leave, take)
	default:
		return fmt.Sprintf("it was paid when its items had been given back%s: %s; or refund it at Stripe, %s", why, take, leave)
	}
}

// receivedOf is what a charge's own payment took.
func receivedOf(e charges.Evidence) int64 {
	for _, p := range e.Payments {
		if e.Charge.PaymentIntent != nil && p.ID == *e.Charge.PaymentIntent {
			return p.Received
		}
	}
	return 0
}
