/* One charge, from accepted to settled, under two workers whose jobs are both live, a Stripe that forgets, and time that
   jumps. README.md beside this file says what is covered and how it is run. Names are those of charges/allow.go.

   Each -D below takes one rule away, and must break the promise: NO_WINDOW, NO_BOUND, LAST_ONLY, ATTEMPT_LATE, HALF_LOOK,
   YOUNG_LOOK, BLIND_REKEY, EARLY_REKEY, LATE_DATE. */

/* Time, in coarse steps: a step is the 60 s of inCall, and everything longer keeps its order, not its length. */
#define INCALL 1 /* a request leaves within the step of its attempt (45 s), or never */
#define PROVEN 2 /* a request that lingers at Stripe is carried out before this age, or never */
#define FINAL  2 /* the last of the look delays after a stored failure */
#define WINDOW 4 /* ONCEPAY_STRIPE_KEY_WINDOW */
#define MEMORY 5 /* from here on Stripe may forget a key */
#define OLD    6 /* all ages beyond are one */

#ifndef FAULTS
#define FAULTS 3 /* crashes, suspensions, lost answers, failures and refusals of Stripe's, lists cut short: so many in all */
#endif
#define N 4 /* attempts: all but the last cost a fault */

mtype = { processing, succeeded, review };               /* the charge */
mtype = { unseen, unknown, stored, closed, answered };   /* an attempt; closed is not_sent, refused or absent */
mtype = { none, paid, broken, lost, refused };  /* Stripe's memory of a key, and its answers */

/* The database. */
mtype charge = processing;
byte n, last;                 /* attempts; the latest one's key */
mtype out[N]; byte key[N]; byte age[N]; bit row[N];
byte failing = OLD;           /* age of the present key's stored failure */
byte looked = OLD;            /* age of the list that the last complete look has read, from when it began to read */
byte written = OLD;           /* age of that look's record */
/* Stripe, and the wire. */
mtype mem[N] = none; byte memory[N];
byte payments; byte payer; byte payment;             /* how many, which attempt's request made it, its age */
bit wire[N]; mtype reply[N] = none;
/* The workers. */
bit busy[2]; byte reading[2];
byte faults = FAULTS;

/* The fold: charges.Allow. */
#ifdef LAST_ONLY
#define ANY(p) (n == 1 && p(0) || n == 2 && p(1) || n == 3 && p(2) || n == 4 && p(3))
#else
#define ANY(p) (p(0) || p(1) || p(2) || p(3))
#endif
#define OPEN(i)   (i < n && row[i] && (out[i] == unseen || out[i] == unknown || out[i] == stored))
#define CALLED(i) (OPEN(i) && out[i] == unseen && age[i] < INCALL)
#define YOUNG(i)  (OPEN(i) && age[i] < PROVEN)
#define PAST(i)   (OPEN(i) && age[i] >= WINDOW)
#define OTHER(i)  (OPEN(i) && key[i] != last)
#define BROKEN(i) (OPEN(i) && out[i] == stored && key[i] == last)

#ifdef NO_WINDOW
#define past false
#else
#define past ANY(PAST)
#endif
#ifdef YOUNG_LOOK
#define young false
#else
#define young ANY(YOUNG)
#endif
#ifdef EARLY_REKEY
#define over (looked < failing)          /* any look since the failure will do */
#else
#define over (looked + FINAL <= failing) /* the last look was made after the last delay */
#endif

#define may_ask  (charge == processing && !ANY(CALLED))
#define may_send (may_ask && n < N && (!ANY(OPEN) || !ANY(BROKEN) && !past && !(ANY(OTHER) && written >= INCALL)))
#define must_end (may_ask && ANY(BROKEN) && over)
#ifdef BLIND_REKEY
#define may_rekey (may_ask && n < N && ANY(BROKEN))
#else
#define may_rekey (must_end && n < N && written < INCALL)
#endif
#define look_stored  (may_ask && ANY(BROKEN) && (!over && (looked > failing || failing >= FINAL) || over && written >= INCALL))
#define look_past    (may_ask && ANY(OPEN) && !ANY(BROKEN) && past && !young)
#define look_another (may_ask && !ANY(BROKEN) && !past && ANY(OTHER) && written >= INCALL)

inline begin(k) { /* the attempt is committed */
    me = n; key[n] = k; out[n] = unseen; age[n] = 0; n++; busy[_pid] = 1;
#ifndef ATTEMPT_LATE
    row[me] = 1;
#endif
}

#define rest busy[_pid] = 0; reading[_pid] = 0

inline watch(proves) { /* the attempts that are open now, and no others, are looked for */
    mask = OPEN(0) | (OPEN(1) << 1) | (OPEN(2) << 2) | (OPEN(3) << 3); final = proves; reading[_pid] = 0; busy[_pid] = 1
}

inline settle(what) { /* an attempt ends once, unless the answer comes after all */
    row[me] = 1;
    if
    :: what == paid   -> out[me] = answered; charge = succeeded
    :: what == broken && out[me] == unseen -> out[me] = stored; if :: key[me] == last -> failing = 0 :: else fi
    :: what == refused && out[me] == unseen -> out[me] = closed
    :: else -> if :: out[me] == unseen -> out[me] = unknown :: else fi
    fi;
    rest
}

inline close(i) { if :: final && (mask & (1 << i)) && OPEN(i) -> out[i] = closed :: else fi }

#define crash atomic { faults > 0 -> faults--; rest; goto again }

active [2] proctype Worker() {
    byte me, mask; bit final, found; mtype got;
again:
    atomic { me = 0; mask = 0; final = 0; found = 0; got = none } /* nothing is remembered but by the database */
    do
    :: charge != processing -> break
    :: atomic { may_send  -> begin(last) } goto call
#ifdef REVIEW
    :: atomic { must_end -> charge = review }
#else
    :: atomic { may_rekey -> last++; begin(last) } goto call
#endif
    :: atomic { look_stored  -> watch(0) } goto look
    :: atomic { look_past    -> watch(1) } goto look
    :: atomic { look_another -> watch(0) } goto look
    od;
    goto over_;

call: /* here the process may be suspended for as long as it likes */
    if
#ifdef NO_BOUND
    :: wire[me] = 1
#else
    :: atomic { age[me] < INCALL -> wire[me] = 1 }
    :: atomic { age[me] >= INCALL -> settle(refused); goto again }
#endif
    :: crash
    fi;
    if
    :: atomic { reply[me] != none -> got = reply[me] }
    :: atomic { faults > 0 -> faults--; got = lost }
    :: atomic { reply[me] == none && !wire[me] -> got = lost }
    :: crash
    fi;
    if
    :: atomic { settle(got) }
    :: crash
    fi;
    goto again;

look: /* reads the list, then writes down what it saw */
    if
    :: atomic { found = payments > 0 && (mask & (1 << payer)) && payment > 0 } /* the list may lag by a step */
    :: atomic { found = payments > 0 && (mask & (1 << payer)) }
#ifdef HALF_LOOK
    :: atomic { faults > 0 -> faults--; found = 0 }                            /* a page failed: taken for none */
#else
    :: atomic { faults > 0 -> faults--; rest; goto again }                  /* a page failed: proves nothing */
#endif
    fi;
    if
    :: atomic {
        if
        :: found -> charge = succeeded
        :: else -> close(0); close(1); close(2); close(3);
            written = 0;
#ifdef LATE_DATE
            looked = 0
#else
            looked = reading[_pid]
#endif
        fi;
        rest; goto again }
    :: crash
    fi;
over_:
    skip
}

inline pay(i) {
    payments++; payer = i; payment = 0;
    assert(payments <= 1) /* I2 */
}

inline carry_out(i) {
    atomic { wire[i] ->
        wire[i] = 0;
        if
        :: mem[key[i]] != none -> reply[i] = mem[key[i]] /* replayed */
        :: else ->
            if
            :: pay(i); mem[key[i]] = paid; memory[key[i]] = 0; reply[i] = paid
            :: faults > 0 -> faults--; mem[key[i]] = broken; memory[key[i]] = 0; reply[i] = broken; if :: pay(i) :: skip fi
            :: faults > 0 -> faults--; reply[i] = refused /* 401, 409, 429: nothing is stored */
            fi
        fi }
}

#define forget(k) atomic { mem[k] != none && memory[k] >= MEMORY -> mem[k] = none; memory[k] = 0 }

active proctype Stripe() {
end: do
    :: carry_out(0) :: carry_out(1) :: carry_out(2) :: carry_out(3)
    :: forget(0) :: forget(1) :: forget(2) :: forget(3)
    od
}

#define older(when, a) if :: (when) && a < OLD -> a++ :: else fi
#define ages(i) ((OPEN(i) || wire[i]) && age[i] < OLD)
#define idle (!busy[0] && !busy[1] && !may_rekey) /* else it is a suspension */
#define fades(k) (mem[k] != none && memory[k] < OLD)

active proctype Time() {
end: do
    :: d_step { (ages(0) || ages(1) || ages(2) || ages(3) || looked < OLD || written < OLD || failing < OLD || fades(0) || fades(1) || fades(2) || fades(3)) &&
                (idle || faults > 0) ->
        if :: !idle -> faults-- :: else fi;
        older(ages(0), age[0]); older(ages(1), age[1]); older(ages(2), age[2]); older(ages(3), age[3]);
        older(true, looked); older(true, written); older(true, failing); older(payments > 0 && payment == 0, payment); older(busy[0], reading[0]); older(busy[1], reading[1]);
        older(fades(0), memory[0]); older(fades(1), memory[1]); older(fades(2), memory[2]); older(fades(3), memory[3]);
        if :: age[0] >= PROVEN -> wire[0] = 0 :: else fi;
        if :: age[1] >= PROVEN -> wire[1] = 0 :: else fi;
        if :: age[2] >= PROVEN -> wire[2] = 0 :: else fi;
        if :: age[3] >= PROVEN -> wire[3] = 0 :: else fi }
    od
}
