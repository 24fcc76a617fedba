-- What was sent to Stripe for a charge, written down before it was sent, and every time Stripe was asked what became of it.

CREATE TABLE attempt (
    id             uuid PRIMARY KEY,
    charge_id      uuid NOT NULL REFERENCES charge (id),
    operation      text NOT NULL CHECK (operation IN ('charge')),
    number         integer NOT NULL CHECK (number > 0),
    provider_key   text NOT NULL CHECK (provider_key <> ''),
    stripe_account text NOT NULL CHECK (stripe_account <> ''),
    livemode       boolean NOT NULL,
    request        text NOT NULL,
    sent_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    stripe_sent_at timestamptz NOT NULL,
    ended_at       timestamptz,
    outcome        text CHECK (outcome IN ('unknown', 'stored_failure', 'not_sent', 'refused', 'absent', 'invalid', 'answered')),
    code           text CHECK (code <> ''),
    http_status    smallint,
    request_id     text CHECK (request_id <> ''),

    CONSTRAINT attempt_number UNIQUE (charge_id, operation, number),
    CONSTRAINT attempt_ends_with_outcome CHECK ((ended_at IS NULL) = (outcome IS NULL))
);

COMMENT ON COLUMN attempt.request        IS 'the encoded form, re-sent byte for byte by later attempts';
COMMENT ON COLUMN attempt.sent_at        IS 'by this database''s clock, just before the call';
COMMENT ON COLUMN attempt.stripe_sent_at IS 'by Stripe''s clock, just before the call';
COMMENT ON COLUMN attempt.ended_at       IS 'null: nobody has seen the call end';
COMMENT ON COLUMN attempt.outcome        IS 'null: nobody has seen the call end; unknown and stored_failure leave the attempt open, all others close it';
COMMENT ON COLUMN attempt.code           IS 'null: the provider gave no error code';
COMMENT ON COLUMN attempt.http_status    IS 'null: no answer came';
COMMENT ON COLUMN attempt.request_id     IS 'null: no answer came, or it named none';

CREATE TABLE look (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    charge_id  uuid NOT NULL REFERENCES charge (id),
    operation  text NOT NULL CHECK (operation IN ('charge')),
    looked_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    complete   boolean NOT NULL,
    seen       integer NOT NULL CHECK (seen >= 0),
    found      text CHECK (found <> ''),
    error      text CHECK (error <> ''),
    rest       jsonb,

    CONSTRAINT look_complete_leaves_no_rest CHECK (NOT complete OR rest IS NULL)
);

COMMENT ON COLUMN look.complete IS 'every page was read; only then does "none found" mean anything';
COMMENT ON COLUMN look.seen     IS 'payment intents read';
COMMENT ON COLUMN look.found    IS 'null: none of them was ours';
COMMENT ON COLUMN look.error    IS 'null: the look was not cut short';
COMMENT ON COLUMN look.rest     IS 'null: nothing is left to read; else where the next look goes on';
CREATE INDEX look_by_charge ON look (charge_id, id);
