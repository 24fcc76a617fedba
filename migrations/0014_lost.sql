-- What a restored database has forgotten is read at Stripe once, for good, whether or not anybody comes back for it.

ALTER TABLE restoration ADD COLUMN readings bigint[];
ALTER TABLE restoration ADD COLUMN read_at timestamptz;
COMMENT ON COLUMN restoration.readings IS 'null: none yet; else the complete readings of all that may have been sent in the lost time, of which the last counts';
COMMENT ON COLUMN restoration.read_at  IS 'null: not yet; else when the last one was known that began late enough to prove something';

-- What a payment was when it was read, for people.
ALTER TABLE reading_payment ADD COLUMN status text;
ALTER TABLE reading_payment ADD COLUMN amount bigint;
ALTER TABLE reading_payment ADD COLUMN currency text;
COMMENT ON COLUMN reading_payment.status   IS 'null: an older release has read it';
COMMENT ON COLUMN reading_payment.amount   IS 'null: an older release has read it';
COMMENT ON COLUMN reading_payment.currency IS 'null: an older release has read it';
