package charges

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	secret, err := f.CreateToken(t.Context(), "shop", Caller)
	if err != nil {
		t.Fatal(err)
	}
	other, err := f.CreateToken(t.Context(), "shop", Operator)
	if err != nil || other == secret {
		t.Fatalf("%v, or two tokens alike", err)
	}
	got, err := f.Authenticate(t.Context(), secret)
	if err != nil || got.Name != "shop" || got.Role != Caller {
		t.Fatalf("%+v, %v", got, err)
	}
	if stored := f.count(t, `SELECT count(*) FROM api_token WHERE api_token::text LIKE '%' || $1 || '%'`, strings.TrimPrefix(secret, "oncepay_")); stored != 0 {
		t.Error("the token itself is in the table")
	}
	if err := f.RevokeToken(t.Context(), got.ID); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{secret, "", "oncepay_", secret + "x"} {
		if _, err := f.Authenticate(t.Context(), bad); !errors.Is(err, ErrBadToken) {
			t.Errorf("authenticate: %v", err)
		}
	}
	for _, id := range []uuid.UUID{got.ID, uuid.New()} {
		if err := f.RevokeToken(t.Context(), id); !errors.Is(err, ErrNotFound) {
			t.Errorf("revoke again, or one unknown: %v", err)
		}
	}
	tokens, err := f.Tokens(t.Context())
	if err != nil || len(tokens) != 2 || tokens[0].RevokedAt == nil || tokens[1].RevokedAt != nil {
		t.Errorf("%+v, %v", tokens, err)
	}
}
