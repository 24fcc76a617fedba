package charges

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oncepay/oncepay/outbox"
)

// Role says what a token may do.
type Role string

// A caller posts charges and sees its own; an operator sees all and posts none.
const (
	Caller   Role = "caller"
	Operator Role = "operator"
)

// Token is what is kept of a bearer token; the token itself is not.
type Token struct {
	ID        uuid.UUID
	Name      string // tokens of one name are one caller
	Role      Role
	CreatedAt time.Time
	RevokedAt *time.Time // nil: valid
}

// ErrBadToken says that a bearer token is unknown or revoked.
var ErrBadToken = errors.New("unknown or revoked token")

// CreateToken makes a token of 256 random bits and returns it; only its hash is stored.
func (s *Service) CreateToken(ctx context.Context, name string, role Role) (secret string, err error) {
	bits := make([]byte, 32)
	if _, err := rand.Read(bits); err != nil {
		return "", fmt.Errorf("random token: %w", err)
	}
	secret = "oncepay_" + base64.RawURLEncoding.EncodeToString(bits)
	return secret, s.AddToken(ctx, secret, name, role)
}

// AddToken stores the hash of a token that the caller chose, unless it is there already.
func (s *Service) AddToken(ctx context.Context, secret, name string, role Role) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("token id: %w", err)
	}
	return outbox.InTx(ctx, s.pool, "token.add", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO api_token (id, name, role, hash) VALUES ($1, $2, $3, $4)
			ON CONFLICT ON CONSTRAINT api_token_hash DO NOTHING`, id, name, role, hashToken(secret))
		if err != nil {
			return fmt.Errorf("insert token: %w", err)
		}
		return nil
	})
}

// asked is a token that somebody calls with.
type asked struct {
	hash  []byte
	token *Token // nil: it is not valid
}

// Authenticate returns the valid token whose secret this is, or [ErrBadToken]. It is looked up each time, together with those of
// other requests.
func (s *Service) Authenticate(ctx context.Context, secret string) (Token, error) {
	a := &asked{hash: hashToken(secret)}
	if err := s.tokens.Do(ctx, a); err != nil {
		return Token{}, err
	}
	if a.token == nil {
		return Token{}, ErrBadToken
	}
	return *a.token, nil
}

const findTokensSQL = `
SELECT hash, id, name, role, created_at FROM api_token WHERE hash = ANY ($1) AND revoked_at IS NULL`

// findTokensBound keeps one that waits for the database from waiting for longer than a client does.
const findTokensBound = 5 * time.Second

func (s *Service) findTokens(ctx context.Context, all []*asked) error {
	ctx, cancel := context.WithTimeout(ctx, findTokensBound)
	defer cancel()
	hashes := make([][]byte, 0, len(all))
	for _, a := range all {
		if !slices.ContainsFunc(hashes, func(h []byte) bool { return bytes.Equal(h, a.hash) }) {
			hashes = append(hashes, a.hash)
		}
	}
	rows, err := s.reads.Query(ctx, findTokensSQL, hashes)
	if err != nil {
		return fmt.Errorf("find tokens: %w", err)
	}
	valid := map[string]*Token{}
	var hash []byte
	var t Token
	_, err = pgx.ForEachRow(rows, []any{&hash, &t.ID, &t.Name, &t.Role, &t.CreatedAt}, func() error {
		found := t
		valid[string(hash)] = &found
		return nil
	})
	if err != nil {
		return fmt.Errorf("find tokens: %w", err)
	}
	for _, a := range all {
		a.token = valid[string(a.hash)]
	}
	return nil
}

// Tokens lists all tokens, the oldest first.
func (s *Service) Tokens(ctx context.Context) ([]Token, error) {
	rows, err := s.reads.Query(ctx, `SELECT id, name, role, created_at, revoked_at FROM api_token ORDER BY created_at, id`)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	tokens, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Token])
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	return tokens, nil
}

// RevokeToken ends a token's validity at once, for all processes. It is [ErrNotFound] for one that is unknown or revoked already.
func (s *Service) RevokeToken(ctx context.Context, id uuid.UUID) error {
	return outbox.InTx(ctx, s.pool, "token.revoke", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE api_token SET revoked_at = now() WHERE id = $1 AND revoked_at IS NULL`, id)
		if err != nil {
			return fmt.Errorf("revoke token %s: %w", id, err)
		}
		if tag.RowsAffected() == 0 {
			return ErrNotFound
		}
		return nil
	})
}

func hashToken(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}
