-- What Stripe has said of each refund and each dispute of a payment, whoever made it, merged from events and lists in whatever order they came.

CREATE TABLE refund (
    id             text PRIMARY KEY CHECK (id <> ''),
    charge_id      uuid NOT NULL REFERENCES charge (id),
    payment        text NOT NULL CHECK (payment <> ''),
    amount         bigint NOT NULL CHECK (amount > 0),
    currency       text NOT NULL CHECK (currency ~ '^[a-z]{3}$'),
    status         text NOT NULL CHECK (status <> ''),
    reason         text CHECK (reason <> ''),
    failure_reason text CHECK (failure_reason <> ''),
    as_of          timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL DEFAULT now()
);

COMMENT ON COLUMN refund.payment        IS 'the payment that it gives back: the charge''s, or a second one that was made for it';
COMMENT ON COLUMN refund.amount         IS 'in the minor unit of the currency, at Stripe''s scale';
COMMENT ON COLUMN refund.status         IS 'in Stripe''s words';
COMMENT ON COLUMN refund.reason         IS 'null: whoever made it gave none';
COMMENT ON COLUMN refund.failure_reason IS 'null unless it has failed and Stripe said why';
COMMENT ON COLUMN refund.as_of          IS 'when it had this status, by Stripe''s clock';
CREATE INDEX refund_by_payment ON refund (payment);
CREATE INDEX refund_by_charge ON refund (charge_id);

CREATE TABLE dispute (
    id         text PRIMARY KEY CHECK (id <> ''),
    charge_id  uuid NOT NULL REFERENCES charge (id),
    payment    text NOT NULL CHECK (payment <> ''),
    amount     bigint NOT NULL CHECK (amount >= 0),
    currency   text NOT NULL CHECK (currency ~ '^[a-z]{3}$'),
    status     text NOT NULL CHECK (status <> ''),
    reason     text NOT NULL CHECK (reason <> ''),
    opened_at  timestamptz NOT NULL,
    due_by     timestamptz,
    as_of      timestamptz NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);

COMMENT ON COLUMN dispute.payment   IS 'the payment that is disputed: the charge''s, or a second one that was made for it';
COMMENT ON COLUMN dispute.amount    IS 'in the minor unit of the dispute''s own currency, at Stripe''s scale';
COMMENT ON COLUMN dispute.status    IS 'in Stripe''s words';
COMMENT ON COLUMN dispute.opened_at IS 'by Stripe''s clock';
COMMENT ON COLUMN dispute.due_by    IS 'null: no evidence is asked for; else until when Stripe takes it';
COMMENT ON COLUMN dispute.as_of     IS 'when it had this status, by Stripe''s clock';
CREATE INDEX dispute_by_payment ON dispute (payment);
CREATE INDEX dispute_by_charge ON dispute (charge_id);
