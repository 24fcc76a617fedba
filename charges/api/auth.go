package api

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/oncepay/oncepay/charges"
)

// lookupTimeout bounds everything that is asked of the database but for tokens and creates, which have bounds of their own.
const lookupTimeout = 5 * time.Second

// bearerToken is RFC 6750's b64token, at a length that no token of ours passes.
var bearerToken = regexp.MustCompile(`^[A-Za-z0-9._~+/-]{1,256}=*$`)

// authenticate finds out who is calling, and whether it may. The token is looked up each time, so that one that was revoked is
// refused from the next request on, by every process.
func (a *API) authenticate(c *call) error {
	values := c.Header.Values("Authorization")
	if len(values) == 0 {
		return errNoToken
	}
	if len(values) > 1 {
		return errBadToken
	}
	scheme, secret, _ := strings.Cut(values[0], " ")
	secret = strings.Trim(secret, " ")
	if !strings.EqualFold(scheme, "Bearer") || !bearerToken.MatchString(secret) {
		return errBadToken
	}
	token, err := a.charges.Authenticate(c.Context(), secret)
	switch {
	case errors.Is(err, charges.ErrBadToken):
		return errBadToken
	case err != nil:
		return err
	}
	c.token = token
	if !slices.Contains(c.operation.roles, token.Role) {
		return errForbidden
	}
	return nil
}
