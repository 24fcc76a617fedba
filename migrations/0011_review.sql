-- What a person decides, receipts that may be sent again, and readings of refunds that no lost job can make forgotten.

-- Charges whose refunds and disputes are to be listed at Stripe: an event said that there is news, and not which.
CREATE TABLE refund_reading (
    charge_id uuid PRIMARY KEY,
    wanted_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON COLUMN refund_reading.wanted_at IS 'of the latest such event: a reading that began before it does not serve it';

-- Each of the few live jobs finds its charge by the primary key. The order of evaluation is the planner's, so that text which is no id must
-- be kept from the cast by a CASE.
INSERT INTO refund_reading (charge_id)
SELECT DISTINCT c.id
  FROM river_job j JOIN charge c ON c.id = CASE
       WHEN j.args ->> 'charge_id' ~* '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' THEN (j.args ->> 'charge_id')::uuid END
 WHERE j.kind = 'refunds_read' AND j.state IN ('available', 'pending', 'retryable', 'running', 'scheduled');

-- From here on charge and receipt are locked against everybody, and not before, since a lock that grows can meet another in a circle. So nothing
-- reads through them: receipts that are unknown are in an index, and every row meets the check, those from before by its default, so that none
-- is read for it, now or later.
ALTER TABLE charge ADD COLUMN rekey_ordered_at timestamptz;
ALTER TABLE refund_reading ADD CONSTRAINT refund_reading_charge_id_fkey FOREIGN KEY (charge_id) REFERENCES charge (id);
COMMENT ON COLUMN charge.rekey_ordered_at IS 'null: nobody has ordered a new key; else when a person did, for the next attempt after it';

ALTER TABLE receipt ADD COLUMN claim_id uuid;
ALTER TABLE receipt ADD COLUMN doubts integer NOT NULL DEFAULT 0;
ALTER TABLE receipt ADD CONSTRAINT receipt_doubts_check CHECK (doubts >= 0) NOT VALID;
COMMENT ON COLUMN receipt.claim_id IS 'null: nobody has claimed it; else its latest claim, so that whoever lost the answer to it knows it again';
COMMENT ON COLUMN receipt.doubts   IS 'how often a send of it ended as unknown';
UPDATE receipt SET doubts = 1 WHERE status = 'unknown';
