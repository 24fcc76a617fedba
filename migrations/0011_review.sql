-- What a person decides, receipts that may be sent again, and readings of refunds that no lost job can make forgotten.

ALTER TABLE charge ADD COLUMN rekey_ordered_at timestamptz;
COMMENT ON COLUMN charge.rekey_ordered_at IS 'null: nobody has ordered a new key; else when a person did, for the next attempt after it';

ALTER TABLE receipt ADD COLUMN claim_id uuid;
ALTER TABLE receipt ADD COLUMN doubts integer NOT NULL DEFAULT 0 CHECK (doubts >= 0);
COMMENT ON COLUMN receipt.claim_id IS 'null: nobody has claimed it; else its latest claim, so that whoever lost the answer to it knows it again';
COMMENT ON COLUMN receipt.doubts   IS 'how often a send of it ended as unknown';
UPDATE receipt SET doubts = 1 WHERE status = 'unknown';

-- Charges whose refunds and disputes are to be listed at Stripe: an event said that there is news, and not which.
CREATE TABLE refund_reading (
    charge_id uuid PRIMARY KEY REFERENCES charge (id),
    wanted_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON COLUMN refund_reading.wanted_at IS 'of the latest such event: a reading that began before it does not serve it';
INSERT INTO refund_reading (charge_id)
SELECT DISTINCT c.id
  FROM river_job j JOIN charge c ON c.id::text = j.args ->> 'charge_id'
 WHERE j.kind = 'refunds_read' AND j.state IN ('available', 'pending', 'retryable', 'running', 'scheduled');
