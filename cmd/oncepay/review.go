package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
)

type reviewCommand struct {
	List          reviewList    `cmd:"" help:"List what a person must decide: charges in needs_review, and receipts that may have been sent or not."`
	Show          reviewShow    `cmd:"" help:"Show all that is known of a charge: attempts, looks, payments, events."`
	Settle        reviewSettle  `cmd:"" help:"Settle a charge that is in needs_review. What contradicts the record is refused."`
	SettleReceipt reviewReceipt `cmd:"" help:"Settle a receipt that is unknown."`
}

type reviewList struct {
	database `embed:""`
	Limit    int  `default:"50" help:"At most so many charges, and so many receipts."`
	JSON     bool `name:"json" help:"As JSON, for programs."`
}

// Validate refuses what cannot work.
func (c *reviewList) Validate() error {
	if c.Limit < 1 || c.Limit > 10_000 {
		return errors.New("--limit must be from 1 to 10000")
	}
	return c.database.Validate()
}

// Run prints a line for each charge and each receipt, and what may be done about them.
func (c *reviewList) Run(ctx context.Context) error {
	b, err := c.openReady(ctx, "review", charges.Options{})
	if err != nil {
		return err
	}
	defer b.close()
	waiting, moreCharges, err := b.charges.Reviews(ctx, c.Limit)
	if err != nil {
		return err
	}
	receipts, moreReceipts, err := b.charges.UnknownReceipts(ctx, outbox.Filter{}, uuid.Nil, c.Limit)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(struct {
			Charges  []charges.Waiting       `json:"charges"`
			Receipts []charges.ReceiptRecord `json:"receipts"`
			More     bool                    `json:"more"`
		}{append([]charges.Waiting{}, waiting...), append([]charges.ReceiptRecord{}, receipts...), moreCharges || moreReceipts})
	}
	if err := printWaiting(waiting); err != nil {
		return err
	}
	if err := printUnknown(receipts); err != nil {
		return err
	}
	if moreCharges || moreReceipts {
		fmt.Fprintln(os.Stderr, "there is more: raise --limit")
	}
	return nil
}

func printWaiting(waiting []charges.Waiting) error {
	if len(waiting) == 0 {
		fmt.Println("No charge needs a person.")
		return nil
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CHARGE\tCALLER\tAGE\tAMOUNT\tWAITS\tREASON\tPAYMENTS")
	now, reasons, seen := time.Now(), []string{}, map[string]bool{}
	for _, x := range waiting {
		reason := x.Charge.Review.Reason
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", x.Charge.ID, x.Caller, now.Sub(x.Charge.CreatedAt).Round(time.Second), charges.Format(x.Charge.Amount, x.Charge.Currency, "en"),
			now.Sub(x.Since).Round(time.Second), shortReason(reason), orDash(strings.Join(x.Payments, " ")))
		if !seen[reason] {
			seen[reason], reasons = true, append(reasons, reason)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Println()
	for _, reason := range reasons {
		fmt.Fprintf(w, "%s\t%s\n", shortReason(reason), whatToDo(reason))
	}
	return cmp.Or(w.Flush(), printShort(waiting))
}

func printUnknown(receipts []charges.ReceiptRecord) error {
	if len(receipts) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nRECEIPT OF CHARGE\tUNKNOWN FOR\tSENDS IN DOUBT\tREASON")
	now := time.Now()
	for _, r := range receipts {
		reason := ""
		if r.Error != nil {
			reason = *r.Error
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", r.ChargeID, now.Sub(r.Since).Round(time.Second), r.Doubts, shortReason(reason))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Println("\nSendGrid's event settles it, or you: see its activity feed, then settle-receipt --as sent, failed or resend (the buyer may get two mails)")
	return nil
}

// whatToDo is a line for each reason why a person is asked.
func whatToDo(reason string) string {
	switch reason {
	case "stored_failure":
		return "look for its key at Stripe; paid there: --as succeeded --payment=pi_...; not: --as failed, or --as resend --new-key"
	case "idempotency_error":
		return "find out what else uses our keys, and look for the key at Stripe; paid there: --as succeeded --payment=pi_...; not: --as failed"
	case "duplicate_payment":
		return "refund, or cancel, all but one payment at Stripe; then --as succeeded --payment=pi_... of the one that stays"
	case "payment_differs", "payment_found":
		return "look for its key at Stripe: what is there is not what was asked for; --as succeeded --payment=pi_... to take it, else cancel it there and --as failed"
	case "ruling_contradicted":
		return "somebody said that its payment took the money, and Stripe says that it did not: see there; then --as failed, or wait for what Stripe tells next"
	case "forbidden":
		return "mend what Stripe refuses us (permissions of the key, the account, the payment method's owner); then --as resend, or --as failed"
	case "unknown_payment_status":
		return "see at Stripe what its payment is about; what Stripe tells next moves the charge by itself; else --as failed or --as succeeded"
	case "cancel_refused":
		return "cancel its open payment at Stripe by hand; then what Stripe tells moves the charge, or settle it as what it was"
	case charges.InsufficientInventory:
		return "it was paid when its items had been given back, and others hold or have bought them. Where its order was paid again: refund it at Stripe, " +
			"then --as succeeded --without-items; else stock more and --as succeeded (--restock stocks what is short in the same step)"
	}
	return "see review show, and the charge's key at Stripe"
}

type reviewShow struct {
	database `embed:""`
	Charge   uuid.UUID `arg:"" help:"The charge's id."`
	JSON     bool      `name:"json" help:"As JSON, for programs."`
}

// Run prints all that is known.
func (c *reviewShow) Run(ctx context.Context) error {
	b, err := c.openReady(ctx, "review", charges.Options{})
	if err != nil {
		return err
	}
	defer b.close()
	e, err := b.charges.Evidence(ctx, c.Charge)
	if err != nil {
		return notThere(err, c.Charge)
	}
	if c.JSON {
		return printJSON(e)
	}
	return printEvidence(e)
}

type reviewSettle struct {
	database `embed:""`
	operator `embed:""`
	rules    `embed:""`
	Because  string    `required:"" placeholder:"TEXT" help:"Why, for the charge's trail."`
	Charge   uuid.UUID `arg:"" help:"The charge's id."`
	As       string    `required:"" enum:"succeeded,failed,canceled,resend" help:"What it is: succeeded, failed, canceled; or resend, to let it be sent again where that is safe."`
	Payment  string    `placeholder:"pi_..." help:"With succeeded: the payment that took the money. Default: the one on record."`
	Captured int64     `help:"With succeeded, of a payment that is not on record: what the buyer was charged, in the minor unit. Default: the charge's amount."`
	NewKey   bool      `help:"With resend, after stored_failure: under a new key, after another look at Stripe."`
	Force    bool      `help:"You know better than the record, which may be behind what Stripe's dashboard shows."`

	WithoutItems bool `help:"With succeeded, of a charge whose items were given back: leave them to others. Without it the charge takes them again."`
	Restock      bool `help:"With succeeded, of a charge whose items were given back: stock as many as are short, and take them, in one step."`
}

// Validate refuses what cannot work.
func (c *reviewSettle) Validate() error { return cmp.Or(c.rules.Validate(), c.database.Validate()) }

// Run settles one charge.
func (c *reviewSettle) Run(ctx context.Context) error {
	b, err := c.openReady(ctx, "review", c.options())
	if err != nil {
		return err
	}
	defer b.close()
	r := charges.Ruling{As: charges.Status(c.As), Payment: c.Payment, Captured: c.Captured, NewKey: c.NewKey, Because: c.Because, Actor: c.who(), Force: c.Force,
		WithoutItems: c.WithoutItems, Restock: c.Restock}
	if c.As == "resend" {
		r.As = charges.Processing
	}
	settled, err := b.charges.Rule(ctx, c.Charge, r)
	if refused := (*charges.RulingError)(nil); errors.As(err, &refused) && refused.Forceable {
		return fmt.Errorf("%w; if you know better, --force", err)
	}
	if err != nil {
		return inDoubt(notThere(err, c.Charge))
	}
	fmt.Printf("%s is %s.\n", settled.ID, settled.Status)
	return nil
}

type reviewReceipt struct {
	database `embed:""`
	operator `embed:""`
	Because  string    `required:"" placeholder:"TEXT" help:"Why, for the charge's trail."`
	Charge   uuid.UUID `arg:"" help:"The charge's id."`
	As       string    `required:"" enum:"sent,failed,resend" help:"What it is: sent; failed, and not to be sent; or resend: send it once more, and the buyer may get two."`
}

// Run settles one receipt.
func (c *reviewReceipt) Run(ctx context.Context) error {
	b, err := c.openReady(ctx, "review", charges.Options{})
	if err != nil {
		return err
	}
	defer b.close()
	as := charges.ReceiptStatus(c.As)
	if c.As == "resend" {
		as = charges.ReceiptPending
	}
	if err := b.charges.RuleReceipt(ctx, c.Charge, as, c.Because, c.who()); err != nil {
		if errors.Is(err, charges.ErrNotFound) {
			return fmt.Errorf("the charge %s is not known, or has no receipt", c.Charge)
		}
		return inDoubt(err)
	}
	fmt.Printf("The receipt of %s is %s.\n", c.Charge, as)
	return nil
}

func notThere(err error, id uuid.UUID) error {
	if errors.Is(err, charges.ErrNotFound) {
		return fmt.Errorf("no charge has the id %s", id)
	}
	return err
}

// inDoubt says what to do where the answer to the commit was lost.
func inDoubt(err error) error {
	if errors.Is(err, outbox.ErrInDoubt) {
		return fmt.Errorf("it may have been done or not, see review show: %w", err)
	}
	return err
}

func printJSON(v any) error {
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}
