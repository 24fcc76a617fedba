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

-- Finds the live job of a charge at once, however long the queue is; River's own index on args cannot be relied on for
-- that, because the planner does not know that a charge's id is in few of them.
CREATE INDEX oncepay_live_job ON river_job ((args ->> 'charge_id'), kind)
    WHERE state IN ('available', 'pending', 'retryable', 'running', 'scheduled');
