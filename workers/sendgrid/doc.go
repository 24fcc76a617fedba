// Package sendgrid mails receipts through SendGrid.
//
// [Render] turns a charge into a mail: subject, plain text and HTML, with nothing in them that a description could use to forge
// a line, a header or markup. [Mailer.Send] makes one call to mail it, with the charge and its idempotency key as custom arguments, by
// which SendGrid's events are told apart later.
//
// SendGrid knows no idempotency, so the errors say what a caller may conclude: an [*Error] is SendGrid's own answer or that of a proxy
// which turned the mail away, transport.ErrNotSent is proof that nothing left, and transport.ErrUnknown means that the mail may be on
// its way and must not be sent again by itself. No error names a mail address.
package sendgrid
