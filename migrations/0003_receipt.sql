-- The buyer's receipt: one row per charge, claimed before the mail is sent, so that it is sent at most once.

CREATE TABLE receipt (
    charge_id   uuid PRIMARY KEY REFERENCES charge (id),
    recipient   text NOT NULL CHECK (recipient <> ''),
    status      text NOT NULL CHECK (status IN ('pending', 'sending', 'sent', 'unknown', 'failed')),
    claimed_at  timestamptz,
    message_id  text CHECK (message_id <> ''),
    error       text CHECK (error <> ''),
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT receipt_sending_is_claimed CHECK (status <> 'sending' OR claimed_at IS NOT NULL),
    CONSTRAINT receipt_failed_says_why CHECK (status <> 'failed' OR error IS NOT NULL)
);

COMMENT ON COLUMN receipt.claimed_at IS 'null: nobody has claimed it; else when its latest send was claimed';
COMMENT ON COLUMN receipt.message_id IS 'null: SendGrid has not told us its id';
COMMENT ON COLUMN receipt.error      IS 'null: nothing went wrong';
CREATE INDEX receipt_unfinished ON receipt (charge_id) WHERE status IN ('pending', 'sending', 'unknown');
