-- A charge, the answer stored under its idempotency key, and its audit trail.

CREATE TABLE charge (
    id                  uuid PRIMARY KEY,
    caller              text NOT NULL CHECK (caller <> ''),
    idempotency_key     uuid NOT NULL,
    fingerprint         bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
    fingerprint_version smallint NOT NULL,
    request             text NOT NULL,
    amount              bigint NOT NULL CHECK (amount > 0),
    currency            text NOT NULL CHECK (currency ~ '^[a-z]{3}$'),
    reference           text CHECK (reference <> ''),
    reference_freed     boolean NOT NULL DEFAULT false,
    send_before         timestamptz,
    status              text NOT NULL CHECK (status IN ('pending', 'processing', 'requires_action',
                            'requires_capture', 'succeeded', 'failed', 'canceled', 'needs_review')),
    payment_intent      text CHECK (payment_intent <> ''),
    failure_code        text CHECK (failure_code <> ''),
    decline_code        text CHECK (decline_code <> ''),
    failure_message     text,
    advice              text CHECK (advice IN ('retry_later', 'new_payment_method', 'do_not_retry')),
    review_reason       text CHECK (review_reason <> ''),
    created_at          timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now(),

    -- The guard that never expires: whatever happens to the stored answer, one key makes one charge.
    CONSTRAINT charge_idempotency_key UNIQUE (idempotency_key),
    CONSTRAINT charge_payment_intent UNIQUE (payment_intent),
    CONSTRAINT charge_failed_says_why CHECK (status <> 'failed' OR failure_code IS NOT NULL),
    CONSTRAINT charge_review_says_why CHECK ((status = 'needs_review') = (review_reason IS NOT NULL)),
    CONSTRAINT charge_money_has_intent CHECK (payment_intent IS NOT NULL
        OR status NOT IN ('requires_action', 'requires_capture', 'succeeded'))
);

COMMENT ON COLUMN charge.request         IS 'the canonical request that the fingerprint covers, as JSON';
COMMENT ON COLUMN charge.amount          IS 'in the minor unit of the currency, at Stripe''s scale';
COMMENT ON COLUMN charge.reference       IS 'null: the caller gave none';
COMMENT ON COLUMN charge.send_before     IS 'null: may be sent at any age';
COMMENT ON COLUMN charge.payment_intent  IS 'null: Stripe has not told us of one yet';
COMMENT ON COLUMN charge.failure_code    IS 'null unless a payment was refused';
COMMENT ON COLUMN charge.decline_code    IS 'null unless the card''s issuer said more than failure_code';
COMMENT ON COLUMN charge.failure_message IS 'null unless a payment was refused; text fit for the caller';
COMMENT ON COLUMN charge.advice          IS 'null unless a payment was refused: what the caller may do about it';
COMMENT ON COLUMN charge.review_reason   IS 'null unless a person must decide';

COMMENT ON COLUMN charge.reference_freed IS 'the charge has failed or was canceled, so that another may carry its reference: for good, even if it is found to have succeeded after all';

-- A caller's order is charged by one charge at a time: another may start only when no earlier one is open or has succeeded.
CREATE UNIQUE INDEX charge_reference ON charge (caller, reference)
    WHERE reference IS NOT NULL AND NOT reference_freed;
CREATE INDEX charge_by_caller ON charge (caller, id);
CREATE INDEX charge_unfinished ON charge (id) WHERE status NOT IN ('succeeded', 'failed', 'canceled');

CREATE TABLE idempotency_key (
    key             uuid PRIMARY KEY,
    caller          text NOT NULL CHECK (caller <> ''),
    operation       text NOT NULL CHECK (operation IN ('charge')),
    charge_id       uuid NOT NULL REFERENCES charge (id),
    response_status smallint NOT NULL CHECK (response_status BETWEEN 200 AND 299),
    response_body   bytea NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    expires_at      timestamptz NOT NULL
);
CREATE INDEX idempotency_key_expires ON idempotency_key (expires_at);

CREATE TABLE charge_event (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    charge_id   uuid NOT NULL REFERENCES charge (id),
    type        text NOT NULL CHECK (type <> ''),
    from_status text,
    to_status   text NOT NULL,
    actor       text NOT NULL CHECK (actor <> ''),
    data        jsonb NOT NULL DEFAULT '{}',
    at          timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON COLUMN charge_event.from_status IS 'null: the charge did not exist before';
CREATE INDEX charge_event_by_charge ON charge_event (charge_id, id);
