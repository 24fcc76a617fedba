-- What a database of ten million charges needs that a small one does not.

-- Pages of charges by status, and by a reference that was freed, cost what is on them. Most charges go from pending by way of processing to
-- succeeded: these indexes have no entry for those, and cost them nothing. Where charge is large they are made by hand first, with CONCURRENTLY; one
-- that is there is left alone without a lock, which even IF NOT EXISTS would take, and one whose making by hand has failed is not taken for good.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_index WHERE NOT indisvalid AND indexrelid IN
               (to_regclass('charge_aside'), to_regclass('charge_aside_by_caller'), to_regclass('charge_freed_reference'))) THEN
        RAISE EXCEPTION 'an index of charge was not made to its end: drop charge_aside, charge_aside_by_caller or charge_freed_reference, whichever is invalid, and make it again';
    END IF;
    IF to_regclass('charge_aside') IS NULL THEN
        CREATE INDEX charge_aside ON charge (status, id)
            WHERE status IN ('requires_action', 'requires_capture', 'needs_review', 'failed', 'canceled');
    END IF;
    IF to_regclass('charge_aside_by_caller') IS NULL THEN
        CREATE INDEX charge_aside_by_caller ON charge (caller, status, id)
            WHERE status IN ('requires_action', 'requires_capture', 'needs_review', 'failed', 'canceled');
    END IF;
    IF to_regclass('charge_freed_reference') IS NULL THEN
        CREATE INDEX charge_freed_reference ON charge (caller, reference)
            WHERE reference_freed AND reference IS NOT NULL;
    END IF;
END $$;

-- Autovacuum comes when a fifth of a table is dead or new, and a tenth has changed since its statistics were made
-- (https://www.postgresql.org/docs/current/routine-vacuuming.html#AUTOVACUUM). Of ten million rows that is two million: until then whoever reads
-- the front of an index passes over them, and the planner believes yesterday's figures. The lock that SET takes lets everybody read and write.
--
-- No table has a fillfactor. Where an update changes no index it finds room on its own page as it is, because what the updates before it left
-- there is cleared away as pages are read: 99.6 % of the updates of attempts were such here while 80 charges were in flight, 95 % of those of
-- payments that came long after; with a fillfactor of 90 it was hardly more, and the table half as large again.

-- A charge is written three times within seconds, each time with an entry in nearly every index, since its status decides which have one. A vacuum
-- reads all indexes, so that it may not come too often either: at ten million charges after each 500,000 dead rows.
ALTER TABLE charge SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE receipt SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);

-- Written once and changed once, within seconds; hardly anything is dead until retention removes it. What is new is vacuumed, so that
-- it is known to be visible to all, while it is still in memory, and not two million rows later from disk.
ALTER TABLE attempt SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE payment SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- Never changed at all: frozen at its first vacuum, a row is never read for wraparound's sake again. The default leaves that to one vacuum of the
-- whole table after 200 million transactions
-- (https://www.postgresql.org/docs/current/routine-vacuuming.html#VACUUM-FOR-WRAPAROUND).
ALTER TABLE charge_event SET (autovacuum_freeze_min_age = 0, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- These are queues: rows go in at one end of an index and are removed at the other, where each removal begins to read.
ALTER TABLE idempotency_key SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE webhook_event SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- River's jobs, too, and faster: three versions and a removal of each within a day, while a worker fetches from the front of an index several
-- times a second. The table is River's, and so are its columns and indexes; how often it is vacuumed is said by whoever fills it, and no
-- migration of River's touches that.
ALTER TABLE river_job SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.02);

-- No statement has ever used these. This comes last, since it locks their tables against everybody until the transaction ends.
DROP INDEX IF EXISTS webhook_event_by_charge;
DROP INDEX IF EXISTS refund_by_charge;
DROP INDEX IF EXISTS dispute_by_charge;
