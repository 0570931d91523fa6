"""Words of references to past events: English. Pure."""

from __future__ import annotations

from typing import Final

from fairlead_operator.publish.words.listed import listed

PAST: Final = listed("""
    a while back, abandoned, abolished, acquired, aforementioned, after the accident, after the attack, after the
    death, after the fall, after the fire, after the flood, after the storm, aftermath, age of, ago, agreed on,
    agreed to, allied, already asked, already been, already done, already met, already paid, already seen, already
    told, ancestor*, ancient, annexed, announced, antiquity, appointed, approved, arose, as a boy, as a child, as a
    girl, as a kid, as of last, asked about, asked her, asked him, asked me to, asked us, asked you to,
    assassinated, assassination, at the time, attacked, awarded, back in, back then, back when, backstory, banished,
    battle*, became, been told, before my time, before now, before that, before the accident, before the fall,
    before the fire, before the flood, before the storm, before us, besieged, betrayal, betrayed, billed, bombed,
    born, bronze age, brought us, brought you, buried, by whom, bygone, came after, came back, came before, came
    from, came through, came to our, came to power, came to settle, came to the, canceled, cancelled, captured,
    carved, cataclysm, cause of the, centuries, century, chased, childhood, chronicle*, collapsed, commanded,
    competed, complained, composed, confessed, conquered, coronation, crossed, crowned, cursed, days back, dead
    king, dealt with, death of, decades, deeds, defeated, deployed, described, diagnosed, dictated, did, did it
    begin, didn't anyone, didn't he, didn't i, didn't my, didn't our, didn't she, didn't somebody, didn't someone,
    didn't the, didn't they, didn't we, didn't you, died, disappearance, disappeared, discovered, divorced, do you
    remember, donated, drowned, during her, during his, during my, during that, during the, during their, dynasty,
    earlier i, earlier in, earlier on, earlier that, earlier this, earlier today, earlier we, earlier you, elected,
    escaped, event of, events of, ever had, ever met, ever sent, ever since, ever was, ever were, executed, exiled,
    expired, explored, failed, fate of, fell in, fell to, filmed, first age, first emperor, first king, first queen,
    fled, forebears, forefather*, foresaw, foretold, forged, forget what, forgot what, former*, formerly, fought,
    founded, founders, founding of, freed, from earlier, gave birth, gave her, gave him, gave them, gave us, gave
    you, generations, golden age, gone by, got her, got his, got married, graduated, great fire, great flood, grew
    up, guarded, had he, had i, had she, had the, had they, had we, had you, hadn't, hanged, happened, harvested,
    has anybody, has anyone, has begun, has he, has it been, has it ever, has my, has our, has she, has somebody,
    has someone, has that, has the, has there been, has there ever, has this, has your, hasn't, haunted, have any
    of, have begun, have i already, have i ever, have i told, have met, have the others, have there been, have they,
    have we, have you been to, have you ever, haven't i, haven't we, he answered, he attended, he borrowed, he
    bought, he built, he burned, he called, he came, he camped, he created, he delivered, he designed, he destroyed,
    he discussed, he found, he gave, he hid, he hired, he invited, he knew, he launched, he left, he lent, he
    mentioned, he met, he moved, he once, he paid, he painted, he played, he presented, he promised, he released, he
    repaired, he replied, he said, he saved, he saw, he sent, he shipped, he sold, he spoke, he suggested, he
    talked, he taught, he told, he took, he visited, he went, he won, he wore, he wrote, heard about, heard of,
    heard some, heard that, heard there, her death, her first, her last, her past, heroes of, hidden by, hidden
    here, his death, his first, his last, his past, histor*, how bad was, how big was, how come the, how did it, how
    did that, how had, how it ended, how it started, how it went, how long has, how long have, how long was, how
    long were, how many customers, how many employees, how many games, how many goals, how many have i, how many of
    my, how many of our, how many of the, how many sales, how many soldiers, how many tickets, how many units, how
    many visitors, how many was, how many were, how many years, how much did it, how much did that, how old was, how
    old were, how strong was, how things went, i asked you, i bought from, i bought last, i came here, i had before,
    i left at, i left in, i mentioned, i met, i moved here, i moved in, i once, i ordered a, i ordered some, i
    ordered the, i paid for, i paid the, i played as, i promised, i saw at, i saw in, i saw on, i sent you, i
    started here, i've met, ice age, imprisoned, in 180*, in 181*, in 182*, in 183*, in 184*, in 185*, in 186*, in
    187*, in 188*, in 189*, in 190*, in 191*, in 192*, in 193*, in 194*, in 195*, in 196*, in 197*, in 198*, in
    199*, in 200*, in 201*, in 202*, in april, in august, in december, in eighteen, in february, in january, in
    july, in june, in march, in my youth, in nineteen, in november, in october, in september, in seventeen, in the
    eighteen, in the eighties, in the fifties, in the forties, in the log*, in the nineteen, in the nineties, in the
    notes, in the past, in the seventies, in the sixties, in the thirties, in the twenties, in your youth,
    incident*, inherited, invaded, invasion of, invented, it began, jog my memory, kidnapped, killed, knighted, laid
    to rest, last adventure, last appointment, last april, last ate, last august, last autumn, last autumn*, last
    call, last came, last campaign, last changed, last chapter, last christmas, last conversation, last couple of,
    last decade, last december, last dragon, last easter, last email, last episode, last evening, last fall, last
    february, last few, last fight, last five, last four, last friday, last game, last heard, last hundred years,
    last january, last job, last july, last june, last king, last known, last march, last may, last meal, last
    meeting, last message, last met, last monday, last month, last night, last november, last october, last order,
    last ordered, last owner, last payment, last played, last quarter, last queen, last release, last report, last
    saturday, last saw, last season, last seen, last semester, last september, last session, last six, last spoke,
    last spring, last summer, last sunday, last talked, last ten, last three, last thursday, last time, last trip,
    last tuesday, last twelve, last two, last updated, last used, last visit, last visited, last wednesday, last
    week, last weekend, last went, last winter, last won, last words, last year, late husband, late king, late
    queen, late wife, left behind, left her, left him, left me, left off, left us, legend*, liberated, like before,
    lived here, lived in, long before, long dead, long gone, looted, lost her, lost his, lost our, lost their, made
    a deal, massacre, medieval, memories, memory of, mentioned earlier, merged, met at, met before, met in, met on,
    minutes of, moments back, months back, murdered, my first day, my first job, my first visit, my past,
    negotiated, nominated, occupied, occurred, offered us, offered you, old king, old queen, old times, olden, once
    had, once knew, once lived, once owned, once said, once served, once stood, once told, once upon a time,
    origin*, originally, our first, our last, our past, outcome of, over the past, over the years, overheard, owed,
    past event, past event*, past events, photographed, plague, plundered, poisoned, predecessor*, prehistoric,
    prescribed, previous*, promoted, prophesied, quoted, raided, razed, rebelled, rebellion, rebuilt, recall*,
    recollect*, recovered, refresh my memory, reign*, rejected, remember a, remember anything, remember her,
    remember his, remember how, remember it, remember last, remember me, remember my, remember our, remember that,
    remember the, remember their, remember us, remember what, remember when, remember where, remember who, remember
    why, remembered, remind me how, remind me of, remind me what, remind me when, remind me where, remind me which,
    remind me who, remind me why, remind us, reminisc*, renamed, reported, rescued, researched, resigned, result of
    the, results of the, retired, returned from, returned to, returned yet, revolution, robbed, ruled, sacked, saga,
    said about, said earlier, said he, said in, said she, said that, said the, said they, sailed, sank, scored,
    second age, sessions back, she answered, she attended, she borrowed, she bought, she built, she burned, she
    called, she came, she camped, she created, she delivered, she designed, she destroyed, she discussed, she found,
    she gave, she hid, she hired, she invited, she knew, she launched, she left, she lent, she mentioned, she met,
    she moved, she once, she paid, she painted, she played, she presented, she promised, she released, she repaired,
    she replied, she said, she saved, she saw, she sent, she shipped, she sold, she spoke, she suggested, she
    talked, she taught, she told, she took, she visited, she went, she won, she wore, she wrote, siege, signed,
    since april, since august, since autumn, since december, since february, since friday, since i last, since
    january, since july, since june, since last, since march, since monday, since nineteen, since november, since
    october, since saturday, since september, since spring, since summer, since sunday, since the accident, since
    the attack, since the fall, since the fire, since the last, since then, since thursday, since tuesday, since we
    last, since wednesday, since when, since winter, since you last, slain, so far, sought, stabbed, stayed at,
    stayed in, stayed with, stole, stolen, stone age, story of, succeeded, summoned, sunk, surrendered, survivors,
    swore, tale of, tales of, terrorised, terrorized, that day, that evening, that morning, that night, that summer,
    that time, that winter, that year, the day before, the day he, the day her, the day his, the day i, the day my,
    the day of, the day she, the day that, the day the, the day they, the day we, the day when, the day you, the
    evening of, the evening that, the evening we, the evening when, the evening you, the first time, the middle
    ages, the morning he, the morning of, the morning she, the morning that, the morning they, the morning we, the
    morning when, the morning you, the night before, the night he, the night her, the night his, the night i, the
    night my, the night of, the night she, the night that, the night the, the night they, the night we, the night
    when, the night you, the old days, the other day, the other night, the other week, the summer of, the summer
    that, the summer we, the summer when, the summer you, the time we, the time when, the time you, the very day,
    the week before, the week of, the week that, the week we, the week when, the week you, the winter of, the winter
    that, the winter we, the winter when, the winter you, the year he, the year i, the year of, the year she, the
    year that, the year they, the year we, the year when, the year you, their death, their first, their last, their
    past, they answered, they attended, they borrowed, they bought, they built, they burned, they called, they came,
    they camped, they created, they delivered, they designed, they destroyed, they discussed, they found, they gave,
    they hid, they hired, they invited, they knew, they launched, they left, they lent, they mentioned, they met,
    they moved, they once, they opened, they paid, they painted, they played, they presented, they promised, they
    released, they repaired, they replied, they said, they saved, they saw, they sent, they shipped, they sold, they
    spoke, they started, they suggested, they talked, they told, they took, they visited, they went, they won, they
    wore, they wrote, third age, those days, told her, told him, told me, told us, took our, took place, traded,
    transcript*, traveled, travelled, treaty, turned out, uncovered, until now, uprising, used to, vaccinated,
    vanished, very first, veteran*, voted, wake of, war, warned, wars, was anybody, was anyone, was built, was
    created, was delivered, was designed, was destroyed, was discussed, was found, was he, was her, was hired, was
    his, was invited, was it always, was it before, was it ever, was it not, was it really, was it the, was it true,
    was it when, was it you who, was launched, was made, was married, was mentioned, was once, was our, was painted,
    was parked, was promised, was published, was released, was repaired, was sent, was she, was shipped, was sold,
    was someone, was that when, was the deal, was the duke, was the first, was the king, was the last, was the
    letter, was the name, was the old, was the package, was the queen, was the reason, was the result, was the
    score, was the weather, was their, was there, was this, was written, was your father, was your master, was your
    mother, was your people, wasn't he, wasn't it the, wasn't she, wasn't that the, wasn't the, wasn't there, wasn't
    this the, we agreed, we answered, we attended, we borrowed, we bought, we built, we burned, we called, we came,
    we camped, we cooked, we created, we decided, we delivered, we designed, we destroyed, we discussed, we found,
    we gave, we hid, we hired, we invited, we knew, we launched, we learned, we learnt, we left, we lent, we
    mentioned, we met, we moved, we once, we opened, we ordered, we paid, we painted, we planned, we played, we
    presented, we promised, we released, we repaired, we replied, we said, we saved, we saw, we sent, we shared, we
    shipped, we slept, we sold, we spoke, we started, we suggested, we talked, we told, we took, we visited, we
    watched, we went, we won, we wrote, we've met, weeks back, went down, went missing, were any, were both, were
    built, were delivered, were destroyed, were found, were hired, were invited, were launched, were made, were our,
    were painted, were published, were released, were sent, were shipped, were sold, were the, were there, were
    these, were they, were those, were told, were we ever, were written, were you a, were you able, were you alive,
    were you at, were you ever, were you in, were you not, were you the, were you there, were you when, were you
    with, were your, weren't the, weren't there, weren't they, weren't we, weren't you, what brought about, what
    caused, what ended the, what had, what has been, what has changed, what have you been, what started the, what
    triggered, what was, what went wrong, what were, what year, whatever came of, when had, when he was, when i
    first, when i was, when it was, when she was, when they first, when they were, when was, when we first, when we
    were, when were, when you first, when you were, where had, where have you been, where was, where were, which
    had, which was, which were, which year, whichever year, who asked, who assigned, who beat, who bought, who
    broke, who brought, who built, who burned, who burnt, who called, who came, who changed, who commands, who
    controls, who created, who decides, who designed, who destroyed, who ended, who fired, who first, who fixed, who
    found, who gave, who gets, who goes first, who governs, who guards, who had, who has, who hid, who hired, who is
    in charge, who is responsible, who knew, who leads, who led, who left, who lives, who lost, who made, who
    married, who may, who met, who must, who once, who opened, who ordered, who owned, who owns, who paid, who
    painted, who pays, who played, who presented, who raised, who ran, who said, who saved, who sent, who sits on,
    who slew, who sold, who spoke, who started, who starts, who survived, who taught, who told, who took, who
    visited, who was, who were, who wins, who won, who wrote, witnessed, worshiped, worshipped, wrecked, years back,
    years before, years earlier, years later, yesterday*, yet returned, you answered, you attended, you borrowed,
    you bought, you built, you burned, you called, you came, you camped, you cooked, you created, you delivered, you
    designed, you destroyed, you discussed, you explained, you found, you gave, you hid, you hired, you invited, you
    knew, you launched, you left, you lent, you mentioned, you met, you moved, you once, you opened, you ordered,
    you paid, you painted, you planned, you played, you presented, you promised, you released, you repaired, you
    replied, you said, you saved, you saw, you sent, you shipped, you showed, you sold, you spoke, you started, you
    suggested, you talked, you taught, you told, you took, you visited, you went, you wore, you wrote, you've met,
    your first, your last, your past
""")
"""Past events: moments, verbs in the past tense, and what history is made of."""
