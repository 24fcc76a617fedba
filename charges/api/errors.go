package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncepay/oncepay/charges"
	"github.com/oncepay/oncepay/outbox"
)

// What the API itself refuses.
var (
	errNoToken   = newProblem(codeUnauthenticated, "Send a token: Authorization: Bearer <token>.").withHeader("WWW-Authenticate", `Bearer realm="oncepay"`)
	errBadToken  = newProblem(codeUnauthenticated, "The token is malformed, unknown or revoked.").withHeader("WWW-Authenticate", `Bearer realm="oncepay", error="invalid_token"`)
	errForbidden = newProblem(codeForbidden, "The token's role does not allow this operation.")
	errNoPath    = newProblem(codeNotFound, "There is nothing at this path.")
	errMediaType = newProblem(codeUnsupportedMediaType, "Send the body as application/json in UTF-8, without a content coding.")
	errTooLarge  = newProblem(codeTooLarge, fmt.Sprintf("The body has more than %d bytes.", charges.MaxRequestBytes))

	errNoWebhooks    = newProblem(codeWebhooksNotConfigured, "This deployment is not set up to take this provider's events.")
	errSignature     = newProblem(codeSignatureInvalid, "The signature is missing, malformed, of another time, or not the provider's. Nothing was stored.")
	errEventTooLarge = newProblem(codeTooLarge, fmt.Sprintf("The body has more than %d bytes.", maxEventBytes))
	errNeverStocked  = newProblem(codeNotFound, "The SKU was never stocked.")
	errEventHeld     = newProblem(codeUnavailable, "What the event is about is being worked on. Nothing was stored; send it again.").withRetryAfter(time.Second)

	// A part of the body may still be on its way, so the connection cannot be used again.
	errSlowBody   = newProblem(codeRequestTimeout, "The body did not arrive in time. Nothing was written.").withHeader("Connection", "close")
	errBrokenBody = invalid("body", "ends before it is complete")

	errCallerOverloads = newProblem(codeUnavailable, "Too many requests of this caller are being handled. Nothing was written; send the same again, with the same key.").withRetryAfter(time.Second)
	errOverloaded      = newProblem(codeUnavailable, "Too many requests are being handled. Nothing was written; send the same again, with the same key.").withRetryAfter(time.Second)
)

// Pauses asked for: short for a key, which is free or answered once another request ends; longer for a database.
const (
	retryKey      = time.Second
	retryDatabase = 2 * time.Second
)

func notAllowed(methods []string) problem {
	return newProblem(codeMethodNotAllowed, "This path has other methods.").withHeader("Allow", strings.Join(methods, ", "))
}

// problemOf is the one place where an error becomes an answer. What is not listed is a bare 500: its text is for the log.
func problemOf(err error) problem {
	var own problem
	var invalid *charges.InvalidError
	var reused *charges.KeyReusedError
	var taken *charges.ReferenceInUseError
	var previous *charges.PreviousError
	var short *charges.InsufficientInventoryError
	var quantity *charges.QuantityError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &invalid):
		p := newProblem(codeInvalidRequest, "The request has faults in the fields named. Nothing was written.")
		for _, f := range invalid.Fields {
			p.Fields = append(p.Fields, fieldFault(f))
		}
		return p.restored(invalid.Restored)
	case errors.Is(err, charges.ErrKeyMissing):
		return newProblem(codeKeyMissing, "Send one Idempotency-Key header with a version 4 or 7 UUID that was made for this request.")
	case errors.Is(err, charges.ErrKeyInvalid):
		return newProblem(codeKeyInvalid, sentence(err.Error()))
	case errors.As(err, &reused):
		p := newProblem(codeKeyReused, "This key was used before, for another request. Nothing was written: another request, such as one with another card, takes a new key.")
		for _, name := range reused.Fields {
			p.Fields = append(p.Fields, fieldFault{Field: name, Reason: "differs from the request that the key was used for"})
		}
		return p
	case errors.As(err, &taken):
		p := newProblem(codeReferenceInUse, "An open or succeeded charge carries this reference. Nothing was written: look at that charge before you charge again.")
		p.Charge = &taken.Charge
		return p
	case errors.As(err, &short):
		p := newProblem(codeInsufficientInventory, "There is not enough of the items named. Nothing was written, and the key can be used again.")
		p.Items = short.Short
		if !short.Restored.IsZero() {
			p.Detail = "There is not enough of the items named. Nothing was written."
		}
		return p.restored(short.Restored)
	case errors.As(err, &quantity):
		p := newProblem(codeInvalidState, sentence(quantity.Error())+" Nothing was written.")
		p.Inventory = &quantity.Inventory
		return p
	case errors.As(err, &previous):
		p := newProblem(codeInvalidState, sentence(previous.Error())+" Nothing was written.")
		p.Inventory = previous.Inventory
		return p
	case errors.Is(err, charges.ErrKeyInUse):
		return newProblem(codeKeyInUse, "Another request with this key is being handled. Send the same again to get its answer.").withRetryAfter(retryKey)
	case errors.Is(err, charges.ErrBusy): // of an event, whatever it is that is held
		return errEventHeld
	case errors.Is(err, charges.ErrInventoryBusy) && !errors.Is(err, outbox.ErrInDoubt):
		return newProblem(codeUnavailable, "Others have kept the stock of a SKU for too long. Nothing was written; send the same again, with the same key where it has one.").
			withRetryAfter(retryDatabase)
	case errors.Is(err, charges.ErrNotFound):
		return newProblem(codeNotFound, "There is no such thing, or it is another caller's.")
	case errors.Is(err, outbox.ErrBusy) && !errors.Is(err, outbox.ErrInDoubt):
		return errOverloaded
	case outbox.Unavailable(err), errors.Is(err, context.Canceled): // the latter for a client that has gone
		return newProblem(codeUnavailable, "The database cannot be asked now. Send the same request again, with the same key where it has one: it has one effect at most.").
			withRetryAfter(retryDatabase)
	default:
		return newProblem(codeInternal, "Something went wrong here. request_id names it in the logs. The same request can be sent again with the same key.")
	}
}

// sentence makes an error's text one.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }
