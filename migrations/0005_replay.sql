-- Every replay of the outbox that changed something: who, when, what and how many.

CREATE TABLE replay (
    id       uuid PRIMARY KEY,
    actor    text NOT NULL CHECK (actor <> ''),
    filter   jsonb NOT NULL,
    counts   jsonb NOT NULL DEFAULT '{}',
    enqueued bigint NOT NULL DEFAULT 0 CHECK (enqueued >= 0),
    started_at  timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz
);

COMMENT ON COLUMN replay.finished_at IS 'null: still running, or cut short';
