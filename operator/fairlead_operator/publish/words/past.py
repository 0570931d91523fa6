"""Words of references to past events: English. Pure."""

from __future__ import annotations

from typing import Final

from fairlead_operator.publish.words.listed import listed

PAST: Final = listed("""
    a while back, abandoned, abolished, accepted, acquired, admitted, aforementioned, after the accident, after the
    attack, after the death, after the fall, after the fire, after the flood, after the storm, aftermath, age of,
    ago, agreed on, agreed to, allied, already asked, already been, already done, already paid, already seen,
    ancestor*, ancient, annexed, announced, answered, antiquity, appointed, approved, argued, arose, as a boy, as a
    child, as a girl, as a kid, asked about, asked her, asked him, asked me to, asked us, asked you to,
    assassinated, assassination, at the time, attacked, attended, awarded, back in, back then, back when, backstory,
    banished, battle*, became, before my time, before now, before that, before the accident, before the fall, before
    the fire, before the flood, before the storm, before us, began, begun, besieged, betrayal, betrayed, billed,
    bombed, born, borrowed, bronze age, brought us, brought you, built, buried, burned, burnt, by whom, bygone, came
    after, came back, came before, came from, came through, came to our, came to power, came to settle, came to the,
    camped, canceled, cancelled, captured, carved, cataclysm, cause of the, celebrated, centuries, century, chased,
    childhood, chronicle*, collapsed, commanded, competed, complained, composed, confessed, conquered, coronation,
    created, crossed, crowned, cursed, days back, dead king, dealt with, death of, decades, deeds, defeated,
    delivered, deployed, described, designed, destroyed, diagnosed, dictated, did, didn't anyone, didn't he, didn't
    i, didn't my, didn't our, didn't she, didn't somebody, didn't someone, didn't the, didn't they, didn't we,
    didn't you, died, disappearance, disappeared, discovered, discussed, divorced, donated, drowned, during her,
    during his, during my, during that, during the, during their, dynasty, earlier i, earlier in, earlier on,
    earlier that, earlier this, earlier today, earlier we, earlier you, elected, escaped, event of, events of, ever
    had, ever since, ever was, ever were, executed, exiled, expired, explored, failed, fate of, fell in, fell to,
    filmed, first age, first emperor, first king, first queen, fled, forebears, forefather*, foresaw, foretold,
    forged, forget what, forgot what, former*, formerly, fought, found, founded, founders, founding of, freed, from
    earlier, gave birth, gave her, gave him, gave me, gave them, gave us, gave you, generations, golden age, gone
    by, got her, got his, got married, graduated, great fire, great flood, grew up, guarded, had he, had i, had she,
    had the, had they, had we, had you, hadn't, hanged, happened, harvested, has anybody, has anyone, has he, has it
    been, has it ever, has my, has our, has she, has somebody, has someone, has that, has the, has there been, has
    there ever, has this, has your, hasn't, haunted, have any of, have i already, have i ever, have the others, have
    there been, have they, have we, have you been to, have you ever, haven't i, haven't we, he bought, he called, he
    came, he knew, he left, he moved, he once, he paid, he played, he saw, he taught, he took, he went, he won, he
    wore, heard about, heard of, heard some, heard that, heard there, her death, her first, her past, heroes of,
    hid, hidden by, hidden here, hired, his death, his first, his past, histor*, hosted, how bad was, how big was,
    how come the, how did it, how did that, how had, how it ended, how it started, how it went, how long has, how
    long have, how long was, how long were, how much did it, how much did that, how old was, how old were, how
    strong was, how things went, hunted, i bought from, i came here, i had before, i left at, i left in, i moved
    here, i moved in, i once, i ordered a, i ordered some, i ordered the, i paid for, i paid the, i played as, i saw
    at, i saw in, i saw on, i started here, ice age, imprisoned, in 180*, in 181*, in 182*, in 183*, in 184*, in
    185*, in 186*, in 187*, in 188*, in 189*, in 190*, in 191*, in 192*, in 193*, in 194*, in 195*, in 196*, in
    197*, in 198*, in 199*, in 200*, in 201*, in 202*, in april, in august, in december, in eighteen, in february,
    in january, in july, in june, in march, in my youth, in nineteen, in november, in october, in september, in
    seventeen, in the eighteen, in the eighties, in the fifties, in the forties, in the log*, in the nineteen, in
    the nineties, in the notes, in the past, in the seventies, in the sixties, in the thirties, in the twenties, in
    your youth, incident*, inherited, introduced the, invaded, invasion of, invented, jog my memory, kidnapped,
    killed, knighted, laid to rest, last, late husband, late king, late queen, late wife, launched, left behind,
    left her, left him, left me, left off, left us, legend*, lent, liberated, like before, lived here, lived in,
    long before, long dead, long gone, looted, lost her, lost his, lost our, lost their, made a deal, made us,
    massacre, medieval, memories, memory of, mentioned, merged, met, minutes of, moments back, months back,
    murdered, my first, my past, negotiated, nominated, occupied, occurred, offered us, offered you, old king, old
    queen, old times, olden, once had, once knew, once lived, once owned, once said, once served, once stood, once
    upon a time, origin*, originally, our first, our past, outcome of, over the past, over the years, overheard,
    owed, painted, past event, past event*, past events, photographed, plague, plundered, poisoned, predecessor*,
    prehistoric, prescribed, presented, previous*, promised, promoted, prophesied, protested, published, quoted,
    raided, raised, razed, rebelled, rebellion, rebuilt, recall*, recollect*, recommended, recorded, recovered,
    refresh my memory, refused, reign*, rejected, released, remember*, remind me how, remind me of, remind me what,
    remind me when, remind me where, remind me which, remind me who, remind me why, remind us, reminisc*, renamed,
    repaired, replied, reported, rescued, researched, resigned, result of the, results of the, retired, returned
    from, returned to, returned yet, revolution, robbed, ruined, ruled, sacked, saga, said about, said earlier, said
    he, said in, said she, said that, said the, said they, sailed, sank, saved, scored, second age, sent, sessions
    back, she bought, she called, she came, she knew, she left, she moved, she once, she paid, she played, she saw,
    she taught, she took, she went, she won, she wore, shipped, siege, signed, since april, since august, since
    autumn, since december, since february, since friday, since january, since july, since june, since march, since
    monday, since nineteen, since november, since october, since saturday, since september, since spring, since
    summer, since sunday, since the accident, since the attack, since the fall, since the fire, since then, since
    thursday, since tuesday, since wednesday, since when, since winter, slain, so far, sold, sought, spoke, stabbed,
    stayed at, stayed in, stayed with, stole, stolen, stone age, story of, submitted, succeeded, suggested,
    summoned, sunk, surrendered, survivors, swore, tale of, tales of, talked, terrorised, terrorized, tested, that
    day, that evening, that morning, that night, that summer, that time, that winter, that year, the day before, the
    day he, the day her, the day his, the day i, the day my, the day of, the day she, the day that, the day the, the
    day they, the day we, the day when, the day you, the evening of, the evening that, the evening we, the evening
    when, the evening you, the first time, the middle ages, the morning he, the morning of, the morning she, the
    morning that, the morning they, the morning we, the morning when, the morning you, the night before, the night
    he, the night her, the night his, the night i, the night my, the night of, the night she, the night that, the
    night the, the night they, the night we, the night when, the night you, the old days, the other day, the other
    night, the other week, the summer of, the summer that, the summer we, the summer when, the summer you, the time
    we, the time when, the time you, the very day, the week before, the week of, the week that, the week we, the
    week when, the week you, the winter of, the winter that, the winter we, the winter when, the winter you, the
    year he, the year i, the year of, the year she, the year that, the year they, the year we, the year when, the
    year you, their death, their first, their past, they bought, they called, they came, they knew, they left, they
    moved, they once, they opened, they paid, they played, they saw, they started, they took, they went, they won,
    they wore, third age, those days, told, took her, took his, took my, took our, took place, took the, traded,
    trained, transcript*, transferred, traveled, travelled, treaty, turned out, uncovered, unlocked, until now,
    uprising, used to, vaccinated, vanished, very first, veteran*, visited, voted, wake of, war, warned, wars, was
    anybody, was anyone, was he, was her, was his, was it always, was it before, was it ever, was it not, was it
    really, was it the, was it true, was it when, was it you who, was married, was once, was our, was parked, was
    she, was someone, was that when, was the, was their, was there, was this, was your, wasn't he, wasn't it the,
    wasn't she, wasn't that the, wasn't the, wasn't there, wasn't this the, we agreed, we bought, we called, we
    came, we cooked, we decided, we knew, we learned, we learnt, we left, we moved, we once, we opened, we ordered,
    we paid, we planned, we played, we saw, we shared, we slept, we started, we took, we watched, we went, we won,
    weeks back, went down, went missing, were any, were both, were our, were the, were there, were these, were they,
    were those, were we ever, were you a, were you able, were you alive, were you at, were you ever, were you in,
    were you not, were you the, were you there, were you when, were you with, were your, weren't the, weren't there,
    weren't they, weren't we, weren't you, what brought about, what caused, what ended the, what had, what has been,
    what has changed, what have you been, what started the, what triggered, what was, what went wrong, what were,
    what year, whatever came of, when had, when he was, when i first, when i was, when it was, when she was, when
    they first, when they were, when was, when we first, when we were, when were, when you first, when you were,
    where had, where have you been, where was, where were, which had, which was, which were, which year, whichever
    year, who asked, who assigned, who beat, who bought, who broke, who brought, who called, who came, who changed,
    who commands, who controls, who decides, who ended, who fired, who first, who fixed, who gave, who gets, who
    goes first, who governs, who guards, who had, who has, who is in charge, who is responsible, who knew, who
    leads, who led, who left, who lives, who lost, who made, who married, who may, who must, who once, who opened,
    who ordered, who owned, who owns, who paid, who pays, who played, who ran, who said, who sits on, who slew, who
    started, who starts, who survived, who taught, who took, who was, who were, who wins, who won, witnessed,
    worshiped, worshipped, wrecked, wrote, years back, years before, years earlier, years later, yesterday*, yet
    returned, you bought, you called, you came, you cooked, you explained, you gave, you knew, you left, you moved,
    you once, you opened, you ordered, you paid, you planned, you played, you saw, you showed, you started, you
    taught, you took, you went, you wore, your first, your past
""")
"""Past events: moments, verbs in the past tense, and what history is made of."""
