package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"github.com/oncepay/oncepay/charges"
)

type keysCommand struct {
	Create keysCreate `cmd:"" help:"Create a token and print it, once: only a hash is stored."`
	List   keysList   `cmd:"" help:"List all tokens."`
	Revoke keysRevoke `cmd:"" help:"Revoke a token, at once and for all processes."`
}

type keysCreate struct {
	database `embed:""`
	Name     string `required:"" help:"Whose token it is. Tokens of one name are one caller and see the same charges, so that a token can be replaced."`
	Role     string `required:"" enum:"caller,operator" help:"caller posts charges and sees its own; operator sees all and posts none."`
}

// Validate refuses what cannot work.
func (c *keysCreate) Validate() error {
	if len(c.Name) > 100 {
		return errors.New("--name must have at most 100 bytes")
	}
	for _, r := range c.Name {
		if r <= ' ' || r > '~' {
			return errors.New("--name must be printable ASCII without spaces")
		}
	}
	return c.database.Validate()
}

// Run prints the token alone on stdout.
func (c *keysCreate) Run(ctx context.Context) error {
	b, err := c.openReady(ctx, "keys", charges.Options{})
	if err != nil {
		return err
	}
	defer b.close()
	secret, err := b.charges.CreateToken(ctx, c.Name, charges.Role(c.Role))
	if err != nil {
		return err
	}
	fmt.Println(secret)
	return nil
}

type keysList struct {
	database `embed:""`
}

// Run prints a line per token.
func (c *keysList) Run(ctx context.Context) error {
	b, err := c.openReady(ctx, "keys", charges.Options{})
	if err != nil {
		return err
	}
	defer b.close()
	tokens, err := b.charges.Tokens(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tROLE\tCREATED\tREVOKED")
	for _, t := range tokens {
		revoked := "-"
		if t.RevokedAt != nil {
			revoked = t.RevokedAt.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", t.ID, t.Name, t.Role, t.CreatedAt.UTC().Format(time.RFC3339), revoked)
	}
	return w.Flush()
}

type keysRevoke struct {
	database `embed:""`
	ID       uuid.UUID `arg:"" help:"The token's id, as shown by keys list."`
}

// Run revokes one token.
func (c *keysRevoke) Run(ctx context.Context) error {
	b, err := c.openReady(ctx, "keys", charges.Options{})
	if err != nil {
		return err
	}
	defer b.close()
	err = b.charges.RevokeToken(ctx, c.ID)
	if errors.Is(err, charges.ErrNotFound) {
		return fmt.Errorf("no valid token has the id %s", c.ID)
	}
	return err
}
