// Package transport carries every call to a provider: one RoundTripper per provider, and nothing else dials.
//
// A call that may move money must end in one of two ways: an answer, or a truthful word on whether anything was
// written. So each call owns its connection while it is on it (HTTP/1.1 only), and every write to that
// connection asks the call first:
//
//	admit (method, key, deadline) -> connection -> write, unless too late or over -> answer, bounded
//
// An error wraps [ErrNotSent] exactly when not one byte of the request was written and none will be. Requests
// are never re-sent and redirects never followed; a request leaves before the deadline that its caller set
// ([WithNotAfter]) or not at all, also when the machine was suspended in between. What the provider answered, however
// unreadable, is told through [Record].
package transport
