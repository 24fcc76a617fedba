-- What is in stock, and which charges hold some of it.

-- A charge that is accepted locks the rows of its SKUs, in their order, until it is committed. One that succeeds leaves them alone: what it holds
-- becomes taken, and as much is left for others as before. So the row knows only what is allocated, held and taken together.
CREATE TABLE inventory (
    sku        text COLLATE "C" PRIMARY KEY CHECK (sku ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$'),
    quantity   bigint NOT NULL CHECK (quantity >= 0),
    allocated  bigint NOT NULL DEFAULT 0 CHECK (allocated >= 0),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),

    -- The guard that nothing gets past: no more is promised than there is.
    CONSTRAINT inventory_not_oversold CHECK (allocated <= quantity)
);
COMMENT ON COLUMN inventory.quantity   IS 'ever stocked';
COMMENT ON COLUMN inventory.allocated  IS 'of it held by open charges, or taken by those that have succeeded';
COMMENT ON COLUMN inventory.updated_at IS 'when quantity was last set';

-- Items name their SKU without a foreign key, which would lock the row that everybody queues for once more for each of them. This is the other
-- half of such a key.
CREATE FUNCTION oncepay_never_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a row of % is never removed', TG_TABLE_NAME;
END
$$;
CREATE TRIGGER inventory_never_removed BEFORE DELETE ON inventory
    FOR EACH ROW EXECUTE FUNCTION oncepay_never_removed();

-- Hot rows are updated many times within a second: room on their page keeps that from growing the index, and the table is small.
ALTER TABLE inventory SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- From here on charge is locked against everybody, at once, since a lock that grows can meet another in a circle. No row has items yet: every one
-- meets the checks, and none is read for them.
ALTER TABLE charge ADD COLUMN stock text;
COMMENT ON COLUMN charge.stock IS 'null: it asks for no items; else where they are';
ALTER TABLE charge ADD CONSTRAINT charge_stock_check CHECK (stock IN ('held', 'taken', 'returned')) NOT VALID;

-- A process of a release that knows nothing of items cannot end a charge and leave them where they are.
ALTER TABLE charge ADD CONSTRAINT charge_stock_follows_status CHECK (
    CASE WHEN status = 'succeeded' THEN stock <> 'held'
         WHEN status IN ('failed', 'canceled') THEN stock = 'returned'
         WHEN status <> 'needs_review' THEN stock <> 'taken' END) NOT VALID;

CREATE TABLE charge_item (
    charge_id uuid NOT NULL REFERENCES charge (id),
    sku       text COLLATE "C" NOT NULL,
    quantity  bigint NOT NULL CHECK (quantity > 0),
    stock     text NOT NULL CHECK (stock IN ('held', 'taken', 'returned')),
    PRIMARY KEY (charge_id, sku)
);
COMMENT ON COLUMN charge_item.sku   IS 'of inventory';
COMMENT ON COLUMN charge_item.stock IS 'that of its charge, for all its items alike';

-- How much of a SKU is held costs what is held, however much was taken before.
CREATE INDEX charge_item_held ON charge_item (sku) INCLUDE (quantity) WHERE stock = 'held';
ALTER TABLE charge_item SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
