-- How each provider is: whether it can be called at all, and how fast. One row each, shared by all processes.

CREATE TABLE provider (
    name           text PRIMARY KEY CHECK (name IN ('stripe', 'sendgrid')),
    outage         text CHECK (outage IN ('down', 'misconfigured')),
    reason         text CHECK (reason <> ''),
    since          timestamptz,
    trial_at       timestamptz,
    trial_since    timestamptz,
    trial_call_at  timestamptz,
    failed_trials  integer NOT NULL DEFAULT 0 CHECK (failed_trials >= 0),
    paused_by      text CHECK (paused_by <> ''),
    paused_because text CHECK (paused_because <> ''),
    paused_at      timestamptz,
    succeeded_at   timestamptz,

    configured     double precision NOT NULL CHECK (configured > 0),
    rate           double precision CHECK (rate > 0),
    rate_at        timestamptz,
    slowed_at      timestamptz,
    held_until     timestamptz,
    fresh_tokens   double precision NOT NULL DEFAULT 0,
    backlog_tokens double precision NOT NULL DEFAULT 0,
    refilled_at    timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT provider_outage_says_why CHECK ((outage IS NULL) = (reason IS NULL) AND (outage IS NULL) = (since IS NULL) AND (outage IS NULL) = (trial_at IS NULL)),
    CONSTRAINT provider_call_is_of_a_trial CHECK (trial_call_at IS NULL OR trial_since IS NOT NULL),
    CONSTRAINT provider_trial_ends_an_outage CHECK (trial_since IS NULL OR outage IS NOT NULL),
    CONSTRAINT provider_pause_says_why CHECK ((paused_by IS NULL) = (paused_because IS NULL) AND (paused_by IS NULL) = (paused_at IS NULL)),
    CONSTRAINT provider_rate_has_a_date CHECK ((rate IS NULL) = (rate_at IS NULL))
);

COMMENT ON COLUMN provider.outage         IS 'null: it can be called; down: calls end without an answer of its own; misconfigured: it refuses our credentials';
COMMENT ON COLUMN provider.reason         IS 'null: no outage; else the error that told of it, cleaned';
COMMENT ON COLUMN provider.since          IS 'null: no outage; else when it was noticed';
COMMENT ON COLUMN provider.trial_at       IS 'null: no outage; else when the next trial is due';
COMMENT ON COLUMN provider.trial_since    IS 'null: no trial; else since when calls are let through again, slowly, to see whether the outage is over';
COMMENT ON COLUMN provider.trial_call_at  IS 'null: no trial, or it may make its next call; else when some process was given the one call at a time that a trial makes, whose end is not known yet';
COMMENT ON COLUMN provider.failed_trials  IS 'of the present outage; each makes the next trial come later';
COMMENT ON COLUMN provider.paused_by      IS 'null: not paused by an operator, whatever the outage says';
COMMENT ON COLUMN provider.paused_because IS 'null: not paused by an operator';
COMMENT ON COLUMN provider.paused_at      IS 'null: not paused by an operator';
COMMENT ON COLUMN provider.succeeded_at   IS 'null: never; else when a call of any process last had an answer that only a working provider gives, to about a second';
COMMENT ON COLUMN provider.configured     IS 'calls per second of all processes together, as the latest of them to call was told';
COMMENT ON COLUMN provider.rate           IS 'null: as configured; else slowed down to this many calls per second, at rate_at';
COMMENT ON COLUMN provider.rate_at        IS 'null: as configured; else when rate was right: it climbs since';
COMMENT ON COLUMN provider.slowed_at      IS 'null: never; else when the provider last said that we are too fast and the rate was halved';
COMMENT ON COLUMN provider.held_until     IS 'null: never held; else the time before which nobody calls, as the provider asked';
COMMENT ON COLUMN provider.fresh_tokens   IS 'calls that may be made at once for new charges, as of refilled_at';
COMMENT ON COLUMN provider.backlog_tokens IS 'calls that may be made at once for the backlog, as of refilled_at';

INSERT INTO provider (name, configured) VALUES ('stripe', 25), ('sendgrid', 50);

-- What operators have done: who, what, to what and why.
CREATE TABLE operator_action (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor  text NOT NULL CHECK (actor <> ''),
    action text NOT NULL CHECK (action <> ''),
    target text NOT NULL CHECK (target <> ''),
    data   jsonb NOT NULL DEFAULT '{}'
);
COMMENT ON COLUMN operator_action.action IS 'such as provider.pause';
COMMENT ON COLUMN operator_action.target IS 'what it was done to, such as stripe';
COMMENT ON COLUMN operator_action.data   IS 'its reason, and whatever else belongs to the action';

CREATE FUNCTION oncepay_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append only', TG_TABLE_NAME;
END
$$;
CREATE TRIGGER operator_action_append_only BEFORE UPDATE OR DELETE ON operator_action
    FOR EACH ROW EXECUTE FUNCTION oncepay_append_only();
