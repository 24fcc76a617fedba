package charges

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
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

// Authenticate returns the valid token whose secret this is, or [ErrBadToken].
func (s *Service) Authenticate(ctx context.Context, secret string) (Token, error) {
	var t Token
	err := s.reads.QueryRow(ctx, `SELECT id, name, role, created_at FROM api_token WHERE hash = $1 AND revoked_at IS NULL`,
		hashToken(secret)).Scan(&t.ID, &t.Name, &t.Role, &t.CreatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return Token{}, ErrBadToken
	}
	if err != nil {
		return Token{}, fmt.Errorf("find token: %w", err)
	}
	return t, nil
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
