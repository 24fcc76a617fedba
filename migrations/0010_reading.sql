-- One reading of Stripe's list of payments serves every charge whose payment it could hold, and what a restored or failed over
-- database has forgotten is known to be forgotten.

CREATE TABLE reading (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stripe_account  text NOT NULL CHECK (stripe_account <> ''),
    livemode        boolean NOT NULL,
    from_at         timestamptz NOT NULL,
    to_at           timestamptz NOT NULL,
    begun_at        timestamptz NOT NULL,
    stripe_begun_at timestamptz NOT NULL,
    holder          uuid,
    held_until      timestamptz,
    after           text CHECK (after <> ''),
    seen            integer NOT NULL DEFAULT 0 CHECK (seen >= 0),
    complete        boolean NOT NULL DEFAULT false,
    error           text CHECK (error <> ''),
    keep_until      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT reading_goes_forward CHECK (from_at < to_at),
    CONSTRAINT reading_is_held_for_a_time CHECK ((holder IS NULL) = (held_until IS NULL)),
    CONSTRAINT reading_complete_is_held_by_nobody CHECK (NOT complete OR holder IS NULL)
);

COMMENT ON COLUMN reading.from_at         IS 'payments created from then on, by Stripe''s clock';
COMMENT ON COLUMN reading.to_at           IS 'and until then, as far as they existed when the reading began';
COMMENT ON COLUMN reading.begun_at        IS 'by this database''s clock, before the first page was asked for';
COMMENT ON COLUMN reading.stripe_begun_at IS 'the same moment by Stripe''s clock';
COMMENT ON COLUMN reading.holder          IS 'null: nobody is reading on';
COMMENT ON COLUMN reading.held_until      IS 'null: nobody is reading on; else until when nobody else does';
COMMENT ON COLUMN reading.after           IS 'null: no page was read yet; else the last payment that was read: the next page follows it';
COMMENT ON COLUMN reading.seen            IS 'payments read, those of others included';
COMMENT ON COLUMN reading.complete        IS 'every page was read; only then does "not among them" mean anything';
COMMENT ON COLUMN reading.error           IS 'null: no page has failed; else why the latest one that failed did';
CREATE INDEX reading_by_account ON reading (stripe_account, livemode, begun_at);
CREATE INDEX reading_kept ON reading (keep_until);

-- The payments that were read and name a key of ours.
CREATE TABLE reading_payment (
    reading_id bigint NOT NULL REFERENCES reading (id) ON DELETE CASCADE,
    payment    text NOT NULL CHECK (payment <> ''),
    key        uuid NOT NULL,

    PRIMARY KEY (reading_id, payment)
);
CREATE INDEX reading_payment_by_key ON reading_payment (key);

-- Which server this data has lived on, last. At most one row.
CREATE TABLE database_identity (
    one               boolean PRIMARY KEY DEFAULT true CHECK (one),
    system_identifier bigint NOT NULL,
    timeline          text NOT NULL CHECK (timeline ~ '^[0-9A-F]{8}$'),
    database_oid      bigint NOT NULL,
    charge_oid        bigint NOT NULL,
    seen_at           timestamptz NOT NULL DEFAULT clock_timestamp()
);

COMMENT ON COLUMN database_identity.charge_oid IS 'of the table charge: a dump that is read back makes it anew';
COMMENT ON COLUMN database_identity.seen_at IS 'when a worker last found this data on that server: what was lost by a restore was written after that';

CREATE TABLE restoration (
    id                     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    detected_at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    lost_from              timestamptz NOT NULL,
    lost_from_stripe       timestamptz,
    actor                  text NOT NULL CHECK (actor <> ''),
    reason                 text NOT NULL CHECK (reason <> ''),
    suspected              boolean NOT NULL DEFAULT false,
    from_system_identifier bigint,
    from_timeline          text,
    to_system_identifier   bigint,
    to_timeline            text,

    CONSTRAINT restoration_loses_the_past CHECK (lost_from <= detected_at)
);

COMMENT ON COLUMN restoration.suspected              IS 'the server was started anew and may have been given an older copy of its files; nothing proves it';
COMMENT ON COLUMN restoration.lost_from              IS 'what was written before that is still here, by this database''s clock';
COMMENT ON COLUMN restoration.lost_from_stripe       IS 'the same moment by Stripe''s clock, as the newest attempt that is left tells it; null: there is none';
COMMENT ON COLUMN restoration.from_system_identifier IS 'null: declared by a person';
COMMENT ON COLUMN restoration.from_timeline          IS 'null: declared by a person';
COMMENT ON COLUMN restoration.to_system_identifier   IS 'null: declared by a person';
COMMENT ON COLUMN restoration.to_timeline            IS 'null: declared by a person';

ALTER TABLE look ADD COLUMN begun_at timestamptz;
ALTER TABLE look ADD COLUMN readings bigint[];
ALTER TABLE look ADD COLUMN restoration bigint;
COMMENT ON COLUMN look.begun_at    IS 'null: an older release made it, and looked_at is all that is known; else what was created later cannot be in it';
COMMENT ON COLUMN look.readings    IS 'null: it read a list of its own; else the readings that it shares with other charges';
COMMENT ON COLUMN look.restoration IS 'null: it looked around attempts; else it read what this restoration, and all before it, may have lost';
