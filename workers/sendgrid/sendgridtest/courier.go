package sendgridtest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/oncepay/oncepay/workers/sandbox/frame"
)

// Courier sends SendGrid's events: many to a request, as a JSON array that ends in CRLF, signed as
// https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features
// has it. Its secrets are private keys, as EncodeKey writes them.
var Courier frame.Courier = courier{}

type courier struct{}

func (courier) Body(events []json.RawMessage) []byte {
	return fmt.Appendf(nil, "[%s]\r\n", bytes.Join(raw(events), []byte(",\r\n")))
}

func raw(events []json.RawMessage) [][]byte {
	bytes := make([][]byte, len(events))
	for i, e := range events {
		bytes[i] = e
	}
	return bytes
}

func (courier) Header() http.Header {
	return http.Header{"Content-Type": {"application/json"}, "User-Agent": {"SendGrid Event API"}}
}

// Sign signs the timestamp followed by the body. SendGrid never sends more than one signature.
func (courier) Sign(body []byte, at time.Time, secrets ...string) (http.Header, error) {
	if len(secrets) != 1 {
		return nil, errors.New("SendGrid sends one signature")
	}
	key, err := DecodeKey(secrets[0])
	if err != nil {
		return nil, err
	}
	timestamp := strconv.FormatInt(at.Unix(), 10)
	sum := sha256.Sum256(append([]byte(timestamp), body...))
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		return nil, fmt.Errorf("sign events: %w", err)
	}
	return http.Header{
		"X-Twilio-Email-Event-Webhook-Signature": {base64.StdEncoding.EncodeToString(signature)},
		"X-Twilio-Email-Event-Webhook-Timestamp": {timestamp},
	}, nil
}

func (courier) NewSecret() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(fmt.Sprintf("sendgridtest: make key: %v", err)) // crypto/rand does not fail
	}
	secret, err := EncodeKey(key)
	if err != nil {
		panic(fmt.Sprintf("sendgridtest: encode key: %v", err)) // it is on P-256
	}
	return secret
}

func (courier) CheckSecret(secret string) error {
	_, err := DecodeKey(secret)
	return err
}

func (courier) IDMember() string { return "sg_event_id" }
func (courier) NewID() string    { return newEventID() }

var errNotP256 = errors.New("a SendGrid signing key is a private key on P-256")

// EncodeKey writes a P-256 private key as base64 of its PKCS #8 form.
func EncodeKey(key *ecdsa.PrivateKey) (string, error) {
	if key.Curve != elliptic.P256() {
		return "", errNotP256
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", fmt.Errorf("encode SendGrid signing key: %w", err)
	}
	return base64.StdEncoding.EncodeToString(der), nil
}

// DecodeKey reads what EncodeKey wrote. Its errors do not show the key.
func DecodeKey(secret string) (*ecdsa.PrivateKey, error) {
	der, err := base64.StdEncoding.DecodeString(secret)
	if err != nil {
		return nil, errors.New("a SendGrid signing key is base64")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	key, ok := parsed.(*ecdsa.PrivateKey)
	if err != nil || !ok || key.Curve != elliptic.P256() {
		return nil, errNotP256
	}
	return key, nil
}

// PublicKey writes the key's public half as SendGrid shows it: base64 of its SubjectPublicKeyInfo.
func PublicKey(key *ecdsa.PrivateKey) string {
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		panic(fmt.Sprintf("sendgridtest: encode public key: %v", err)) // it is on P-256
	}
	return base64.StdEncoding.EncodeToString(der)
}
