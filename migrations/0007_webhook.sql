-- What Stripe and SendGrid have told us unasked: every signed event, stored once, and what became of it.

CREATE TABLE webhook_event (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    provider    text NOT NULL CHECK (provider IN ('stripe', 'sendgrid')),
    event_id    text NOT NULL CHECK (event_id <> ''),
    type        text NOT NULL CHECK (type <> ''),
    raw         bytea NOT NULL,
    occurred_at timestamptz,
    status      text NOT NULL CHECK (status IN ('pending', 'applied', 'ignored')),
    note        text CHECK (note <> ''),
    charge_id   uuid,
    tries       integer NOT NULL DEFAULT 0 CHECK (tries >= 0),
    due_at      timestamptz NOT NULL DEFAULT now(),
    received_at timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),

    -- Providers send the same event again, and to several processes at once: it has one effect.
    CONSTRAINT webhook_event_once UNIQUE (provider, event_id),
    CONSTRAINT webhook_event_ignored_says_why CHECK (status <> 'ignored' OR note IS NOT NULL)
);

COMMENT ON COLUMN webhook_event.event_id    IS 'the provider''s, or sha256:... of an event that names none';
COMMENT ON COLUMN webhook_event.raw         IS 'byte for byte; of SendGrid, the event''s part of its batch';
COMMENT ON COLUMN webhook_event.occurred_at IS 'by the provider''s clock; null: it did not say';
COMMENT ON COLUMN webhook_event.note        IS 'null: taken as it is; else why it waits or was ignored, or what is odd about it';
COMMENT ON COLUMN webhook_event.charge_id   IS 'null: no charge of ours is known for it';
COMMENT ON COLUMN webhook_event.due_at      IS 'pending: when it is tried again';
CREATE INDEX webhook_event_pending ON webhook_event (due_at) WHERE status = 'pending';
CREATE INDEX webhook_event_settled ON webhook_event (received_at) WHERE status <> 'pending';
CREATE INDEX webhook_event_by_charge ON webhook_event (charge_id) WHERE charge_id IS NOT NULL;

-- What becomes of a mail after SendGrid has taken it. Every row meets the narrower check, so none is read again.
ALTER TABLE receipt DROP CONSTRAINT receipt_status_check;
ALTER TABLE receipt ADD CONSTRAINT receipt_status_check CHECK (status IN ('pending', 'sending', 'sent', 'unknown', 'failed',
    'deferred', 'delivered', 'bounced', 'dropped')) NOT VALID;
