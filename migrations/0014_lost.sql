-- What a restored database has forgotten is read at Stripe once, for good, whether or not anybody comes back for it.

ALTER TABLE restoration ADD COLUMN read_at timestamptz;
COMMENT ON COLUMN restoration.read_at IS 'null: not yet; else when all that may have been sent in the lost time had been read at Stripe, late enough to prove something';
