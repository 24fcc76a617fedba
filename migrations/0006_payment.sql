-- What Stripe has said of each payment, merged from answers, looks and events in whatever order they came.

CREATE TABLE payment (
    id              text PRIMARY KEY CHECK (id <> ''),
    charge_id       uuid NOT NULL REFERENCES charge (id),
    status          text NOT NULL CHECK (status <> ''),
    as_of           timestamptz NOT NULL,
    received        bigint NOT NULL CHECK (received >= 0),
    failure_code    text CHECK (failure_code <> ''),
    decline_code    text CHECK (decline_code <> ''),
    failure_message text,
    advice          text CHECK (advice IN ('retry_later', 'new_payment_method', 'do_not_retry')),
    failed_as_of    timestamptz,
    client_secret   text CHECK (client_secret <> ''),
    redirect_url    text CHECK (redirect_url <> ''),
    followed        boolean NOT NULL,
    updated_at      timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT payment_failure_has_a_date CHECK ((failure_code IS NULL) = (failed_as_of IS NULL))
);

COMMENT ON COLUMN payment.status        IS 'in Stripe''s words';
COMMENT ON COLUMN payment.as_of         IS 'when it had this status, by Stripe''s clock';
COMMENT ON COLUMN payment.received      IS 'what the buyer was charged, in the minor unit: less than the charge''s amount where less was captured';
COMMENT ON COLUMN payment.failure_code  IS 'null: no try of it has failed; else the latest one''s';
COMMENT ON COLUMN payment.failed_as_of  IS 'null: no try of it has failed; else when the latest one did, by Stripe''s clock';
COMMENT ON COLUMN payment.client_secret IS 'null: the buyer never had anything to do; else what lets the buyer''s page go on, for the owning caller alone';
COMMENT ON COLUMN payment.redirect_url  IS 'null: the buyer''s page decides; else where the buyer goes to authenticate';
COMMENT ON COLUMN payment.followed      IS 'it may still change at Stripe, so that a worker asks about it from time to time';
CREATE INDEX payment_by_charge ON payment (charge_id);
CREATE INDEX payment_followed ON payment (charge_id) WHERE followed;

-- Canceling a payment at Stripe is an operation of its own, with attempts of its own.
ALTER TABLE attempt DROP CONSTRAINT attempt_operation_check;
ALTER TABLE attempt ADD CONSTRAINT attempt_operation_check CHECK (operation IN ('charge', 'cancel'));
ALTER TABLE attempt ADD COLUMN payment text CHECK (payment <> '');
ALTER TABLE attempt ADD CONSTRAINT attempt_cancels_a_payment CHECK ((operation = 'cancel') = (payment IS NOT NULL));
COMMENT ON COLUMN attempt.payment IS 'null: the attempt makes a payment; else the payment that it cancels';
